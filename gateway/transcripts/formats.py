"""Transcripts written down: WebVTT, SubRip, plain text and JSON.

Owns: the four formats, and what each shows where a caption is missing. Must not know: where a
transcript comes from, HTTP.

In VTT and SRT what has no caption in a language is left out: whoever reads captions reads that
language. A failed one is shown as the original, marked with its language, as on the screen. TXT and
JSON leave nothing out.

WebVTT is as W3C has it (https://www.w3.org/TR/webvtt1/). SubRip has no standard: this is what
FFmpeg reads. It cannot escape anything, so what would be read as a time or as markup gets
look-alikes.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.transcripts import cues
from gateway.transcripts.transcript import EntryState, Transcript, TranscriptEntry

GONE = "What was said before is no longer kept."
LABEL = 24
"""Characters of a speaker's name in SRT, where it stands in the text; a longer one is cut."""


_BLOCKS = ("NOTE", "STYLE", "REGION", "WEBVTT")
_NAME = str.maketrans("&<>", "＆‹›")
# Inside a tag W3C has `&amp;`, but FFmpeg takes that for the end of the tag.
_TAG = re.compile(r"<(?=[A-Za-z/!?])")


class Format(enum.StrEnum):
    """How a transcript is written down. The value ends the name of its file."""

    VTT = "vtt"
    SRT = "srt"
    TXT = "txt"
    JSON = "json"


class Title(NamedTuple):
    """Which room's transcript it is, and of which state of its log."""

    room: str
    epoch: str
    seq: int


Choice = Sequence[str | None]
"""The languages to show together, None for the original; one or two."""


class _TranscriptText(NamedTuple):
    """What is shown of an utterance for one of the languages asked for."""

    lang: str
    text: str
    marked: bool = False  # not the language that was asked for

    def __str__(self) -> str:
        return f"[{self.lang}] {self.text}" if self.marked else self.text


class _Cue(NamedTuple):
    name: str
    speaker: str
    texts: tuple[_TranscriptText, ...]  # each with its lines in `text`
    begin: int
    end: int


def vtt(transcript: Transcript, choice: Choice) -> str:
    """WebVTT. A cue has the id of its utterance, and the number of its part: ``u1/2``."""
    rows = _rows(transcript, choice)
    total, missing = len(transcript.utterances), len(transcript.utterances) - len(rows)
    blocks = ["WEBVTT\n\n"]
    if not transcript.complete:
        blocks.append(f"NOTE {GONE}\n\n")
    if missing:
        blocks.append(f"NOTE Not in this language: {missing} of {total} utterances.\n\n")
    for cue in _cues(rows):
        voice = f"<v {cue.speaker.translate(_NAME)}>" if cue.speaker else ""
        texts = "\n".join(_span(text, len(choice) > 1) for text in cue.texts)
        times = f"{_clock(cue.begin, '.')} --> {_clock(cue.end, '.')}"
        blocks.append(f"{cue.name}\n{times}\n{voice}{texts}\n\n")
    return "".join(blocks)


def srt(transcript: Transcript, choice: Choice) -> str:
    """SubRip. A speaker's name stands before the text where it is another than before."""
    blocks = []
    for number, cue in enumerate(_cues(_rows(transcript, choice), labelled=True), 1):
        times = f"{_clock(cue.begin, ',')} --> {_clock(cue.end, ',')}"
        texts = "\n".join(text.text for text in cue.texts)
        blocks.append(f"{number}\n{times}\n{texts}\n\n")
    return "".join(blocks)


def txt(transcript: Transcript, choice: Choice) -> str:
    """Plain text, a line for each utterance and language."""
    lines = [] if transcript.complete else [f"({GONE})"]
    for utterance, (first, *others) in _rows(transcript, choice, whole=True):
        seconds = int(utterance.begin)
        time = f"[{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}] "
        speaker = cues.plain(utterance.speaker or "")
        lines.append(f"{time}{speaker + ': ' if speaker else ''}{first}")
        lines += (" " * len(time) + f"[{other.lang}] {other.text}" for other in others)
    return "".join(line + "\n" for line in lines)


def json(transcript: Transcript, title: Title, langs: Sequence[str]) -> bytes:
    """JSON, with the original of every utterance and its captions in ``langs``."""
    return msgspec.json.encode(
        {
            "room": title.room,
            "epoch": title.epoch,
            "seq": title.seq,
            "complete": transcript.complete,
            "languages": langs,
            "available": transcript.langs,
            "utterances": [_row(utterance, langs) for utterance in transcript.utterances],
        }
    )


def _row(utterance: TranscriptEntry, langs: Sequence[str]) -> dict[str, Any]:
    return {
        "id": utterance.id,
        "ord": utterance.ord,
        "speaker": utterance.speaker,
        "lang": utterance.lang,
        "text": utterance.text,
        "edited": utterance.edited,
        "begin": round(utterance.begin, 3),
        "end": round(utterance.end, 3),
        "at": round(utterance.at, 3),
        "t0": utterance.t0,
        "t1": utterance.t1,
        "captions": {lang: _caption(utterance, lang) for lang in langs},
    }


def _caption(utterance: TranscriptEntry, lang: str) -> dict[str, Any]:
    caption = utterance.read(lang)
    row: dict[str, Any] = {"state": caption.state.value}
    if caption.state.shown:
        row |= {"text": caption.text, "by": caption.by}
    if caption.at is not None:
        row["at"] = round(caption.at, 3)
    if caption.code is not None:
        row["code"] = caption.code
    return row


# --- what is shown --------------------------------------------------------------------------------


def _rows(
    transcript: Transcript, choice: Choice, *, whole: bool = False
) -> list[tuple[TranscriptEntry, list[_TranscriptText]]]:
    """What is shown of each utterance, in the order spoken; nothing of those that are left out.

    ``whole``: the original stands for what is missing.
    """
    rows = ((u, _texts(u, choice, whole=whole)) for u in transcript.spoken)
    return [(utterance, texts) for utterance, texts in rows if texts]


def _texts(utterance: TranscriptEntry, choice: Choice, *, whole: bool) -> list[_TranscriptText]:
    found: dict[str, _TranscriptText] = {}  # by language: the original is not shown twice
    for lang in choice:
        caption = None if lang is None else utterance.read(lang)
        if lang is None or caption is None or caption.state is EntryState.SAME:
            text = _TranscriptText(utterance.lang, cues.plain(utterance.text))
        elif caption.state.shown:
            text = _TranscriptText(lang, cues.plain(caption.text))
        elif whole or caption.state is EntryState.FAILED:
            text = _TranscriptText(utterance.lang, cues.plain(utterance.text), marked=True)
        else:
            continue
        if text.text:
            found.setdefault(text.lang, text)
    return list(found.values())


def _cues(
    rows: Sequence[tuple[TranscriptEntry, list[_TranscriptText]]], *, labelled: bool = False
) -> Iterator[_Cue]:
    """The cues in their order in time. ``labelled``: without markup, the speaker in the text."""
    used: set[str] = set()
    drafts: list[tuple[cues.CueTiming, _Cue]] = []
    last = ""
    for utterance, texts in rows:
        speaker = cues.plain(utterance.speaker or "")
        whole = [_harmless(str(text)) if labelled else str(text) for text in texts]
        if labelled and speaker not in ("", last):
            whole[0] = f"{_harmless(_short(speaker))}: {whole[0]}"
        last = speaker
        parts = cues.lay(whole, [text.lang for text in texts])
        slots = cues.share(utterance.begin, utterance.end, parts)
        names = _names(utterance, len(parts), used)
        for name, part, slot in zip(names, parts, slots, strict=True):
            lines = zip(texts, part, strict=True)
            shown = tuple(text._replace(text="\n".join(two)) for text, two in lines)
            drafts.append((slot, _Cue(name, speaker, shown, slot.begin, slot.end)))
    drafts.sort(key=lambda draft: draft[0].begin)
    settled = cues.settle([slot for slot, _ in drafts])
    for (begin, end), (_, cue) in zip(settled, drafts, strict=True):
        yield cue._replace(begin=begin, end=end)


def _names(utterance: TranscriptEntry, count: int, used: set[str]) -> list[str]:
    """Names of the cues of an utterance: none is in use, or would be read as anything else."""
    name = cues.plain(utterance.id).replace("-->", "--›")
    if not name or name.startswith(_BLOCKS):
        name = f"#{name}"
    while True:
        names = [f"{name}/{n}" for n in range(1, count + 1)] if count > 1 else [name]
        if used.isdisjoint(names):
            used.update(names)
            return names
        name = f"{name}+{utterance.ord}"  # an id that came again, long after


def _short(name: str) -> str:
    return name if len(name) <= LABEL else name[: LABEL - 1].rstrip() + "…"


def _harmless(text: str) -> str:
    return _TAG.sub("‹", text).replace("-->", "--›").replace("{\\", "(\\")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _span(text: _TranscriptText, several: bool) -> str:
    """A text in WebVTT; where it is not the one language of all, with its language."""
    escaped = _escape(text.text)
    return f"<lang {text.lang}>{escaped}</lang>" if several or text.marked else escaped


def _clock(milliseconds: int, point: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{rest:03}"
