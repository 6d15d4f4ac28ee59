"""Formats of transcripts: WebVTT, SubRip, plain text, JSON, and those of other packages.

Owns: the four formats, the output for missing captions, and where other formats are found. Must not
know: the source of a transcript, HTTP.

VTT and SRT leave out utterances without a caption in the language. A failed caption is shown as the
original, marked with its language, as on the screen. TXT and JSON leave nothing out.

WebVTT follows the W3C (https://www.w3.org/TR/webvtt1/). SubRip has no standard, so this is what
FFmpeg reads. SubRip has no escapes, so characters that would be read as a time or as markup are
replaced by similar ones.
"""

from __future__ import annotations

import enum
import html
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Any, Final, NamedTuple

import msgspec

from gateway.core.transcripts import cues
from gateway.core.transcripts.transcript import EntryState, Transcript, TranscriptEntry

log = logging.getLogger("gateway.transcripts")

POINTS: Final = "caption_gateway.formats"
"""Group of the entry points with which other packages offer formats. An entry point has the name of
the format, which is also the end of a file's name, and refers to a `TextFormat`."""

GONE = "What was said before is no longer kept."
LABEL = 24
"""Maximum length of a speaker's name in SRT, in characters. The name is part of the text there."""

_BLOCKS = ("NOTE", "STYLE", "REGION", "WEBVTT")
_NAME = str.maketrans("&<>", "＆‹›")
# In a tag the W3C escapes with `&amp;`, but FFmpeg would end the tag there. So the name of a
# speaker gets similar characters instead.
_TAG = re.compile(r"<(?=[A-Za-z/!?])")


class Format(enum.StrEnum):
    """Format of a transcript. The value is the file name extension."""

    VTT = "vtt"
    SRT = "srt"
    TXT = "txt"
    JSON = "json"


class Title(NamedTuple):
    """Identity of a transcript: its room, and the epoch and last number of the log. ``began``: when
    the log began, in whole seconds of the Unix clock
    """

    room: str
    epoch: str
    seq: int
    began: int


Choice = Sequence[str | None]
"""One or two languages to show together; None stands for the original."""


class ShownText(NamedTuple):
    """Text that is shown of an utterance for one of the chosen languages."""

    lang: str
    text: str
    marked: bool = False  # the text is not in the chosen language

    def __str__(self) -> str:
        return f"[{self.lang}] {self.text}" if self.marked else self.text


class _Cue(NamedTuple):
    """A cue with its times in milliseconds."""

    name: str
    speaker: str
    texts: tuple[ShownText, ...]  # the lines of each are in `text`
    begin: int
    end: int


def vtt(transcript: Transcript, choice: Choice) -> str:
    """Return WebVTT. The name of a cue is the utterance's id and a number, such as ``u1/2``."""
    rows = shown_texts(transcript, choice)
    total, missing = len(transcript.utterances), len(transcript.utterances) - len(rows)
    # Comments of WebVTT are not shown, but tell a person who opens the file what is missing.
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
    """Return SubRip. The name of a speaker precedes the text if the speaker has changed."""
    blocks = []
    for number, cue in enumerate(_cues(shown_texts(transcript, choice), labelled=True), 1):
        times = f"{_clock(cue.begin, ',')} --> {_clock(cue.end, ',')}"
        texts = "\n".join(text.text for text in cue.texts)
        blocks.append(f"{number}\n{times}\n{texts}\n\n")
    return "".join(blocks)


def txt(transcript: Transcript, choice: Choice) -> str:
    """Return plain text with a line for each utterance and language."""
    lines = [] if transcript.complete else [f"({GONE})"]
    for utterance, (first, *others) in shown_texts(transcript, choice, whole=True):
        seconds = int(utterance.begin)
        time = f"[{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}] "
        speaker = cues.plain(utterance.speaker or "")
        lines.append(f"{time}{speaker + ': ' if speaker else ''}{first}")
        lines += (" " * len(time) + f"[{other.lang}] {other.text}" for other in others)
    return "".join(line + "\n" for line in lines)


def json(transcript: Transcript, title: Title, langs: Sequence[str]) -> bytes:
    """Return JSON with the original of every utterance and its captions in ``langs``."""
    about = {
        "complete": transcript.complete,
        "languages": langs,
        "available": transcript.langs,
        "utterances": [_row(utterance, langs) for utterance in transcript.utterances],
    }
    return msgspec.json.encode(title._asdict() | about)


def _row(utterance: TranscriptEntry, langs: Sequence[str]) -> dict[str, Any]:
    rounded = {name: round(getattr(utterance, name), 3) for name in ("begin", "end", "at")}
    captions = {lang: _caption(utterance, lang) for lang in langs}
    return msgspec.structs.asdict(utterance) | rounded | {"captions": captions}


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


# --- shown texts ----------------------------------------------------------------------------------


def shown_texts(
    transcript: Transcript, choice: Choice, *, whole: bool = False
) -> list[tuple[TranscriptEntry, list[ShownText]]]:
    """Return the shown texts of each utterance in the order spoken, without empty ones. In a
    ``whole`` transcript the original stands, marked, for a missing caption.
    """
    rows = ((u, _texts(u, choice, whole=whole)) for u in transcript.spoken)
    return [(utterance, texts) for utterance, texts in rows if texts]


def _texts(utterance: TranscriptEntry, choice: Choice, *, whole: bool) -> list[ShownText]:
    """Return the shown texts of an utterance. See `shown_texts`."""
    texts: dict[str, ShownText] = {}  # by language, so that the original is not shown twice
    for lang in choice:
        caption = None if lang is None else utterance.read(lang)
        if lang is None or caption is None or caption.state is EntryState.SAME:
            text = ShownText(utterance.lang, cues.plain(utterance.text))
        elif caption.state.shown:
            text = ShownText(lang, cues.plain(caption.text))
        elif whole or caption.state is EntryState.FAILED:
            text = ShownText(utterance.lang, cues.plain(utterance.text), marked=True)
        else:
            continue
        if text.text:
            texts.setdefault(text.lang, text)
    return list(texts.values())


def _cues(
    rows: Sequence[tuple[TranscriptEntry, list[ShownText]]], *, labelled: bool = False
) -> Iterator[_Cue]:
    """Yield the cues in order of time. If they are ``labelled``, the speaker is part of the text,
    without markup.
    """
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
    # Speakers may overlap, so cues of one utterance need not be neighbours.
    drafts.sort(key=lambda draft: draft[0].begin)
    settled = cues.settle([slot for slot, _ in drafts])
    for (begin, end), (_, cue) in zip(settled, drafts, strict=True):
        yield cue._replace(begin=begin, end=end)


def _names(utterance: TranscriptEntry, count: int, used: set[str]) -> list[str]:
    """Return unused names for the cues of an utterance that cannot be read as something else."""
    name = cues.plain(utterance.id).replace("-->", "--›")
    if not name or name.startswith(_BLOCKS):
        name = f"#{name}"
    while True:
        names = [f"{name}/{n}" for n in range(1, count + 1)] if count > 1 else [name]
        if used.isdisjoint(names):
            used.update(names)
            return names
        name = f"{name}+{utterance.ord}"  # a client has used the id again for a later utterance


def _short(name: str) -> str:
    """Return a name cut to `LABEL` characters."""
    return name if len(name) <= LABEL else name[: LABEL - 1].rstrip() + "…"


def _harmless(text: str) -> str:
    """Replace text that SubRip players would read as markup or as a time."""
    return _TAG.sub("‹", text).replace("-->", "--›").replace("{\\", "(\\")


def _span(text: ShownText, several: bool) -> str:
    """Return a text for WebVTT, with a language tag if not all texts have the same language."""
    escaped = html.escape(text.text, quote=False)
    return f"<lang {text.lang}>{escaped}</lang>" if several or text.marked else escaped


def _clock(milliseconds: int, point: str) -> str:
    """Return a time as ``hh:mm:ss`` and milliseconds behind the decimal ``point``."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{rest:03}"


class TextFormat(NamedTuple):
    """A format of transcripts.

    ``media_type``: value of ``Content-Type``. Browsers run the scripts of ``text/html``, so all
    texts in it have to be escaped

    ``write``: function of a transcript and of the languages that are shown together. It runs in a
    thread and returns the whole file
    """

    media_type: str
    write: Callable[[Transcript, Choice], str]


OWN: Final[Mapping[str, TextFormat]] = {
    Format.VTT: TextFormat("text/vtt; charset=utf-8", vtt),
    Format.SRT: TextFormat("application/x-subrip; charset=utf-8", srt),
    Format.TXT: TextFormat("text/plain; charset=utf-8", txt),
}
"""Formats of this package. No other package replaces them."""


@cache
def text_formats() -> Mapping[str, TextFormat]:
    """Return all formats by their names. One that cannot be imported is logged and left out."""
    formats: dict[str, TextFormat] = {**OWN}
    for point in metadata.entry_points(group=POINTS):
        try:
            format = point.load()
        except (ImportError, AttributeError) as exc:  # the other formats remain
            log.error("the format %s (%s) cannot be imported: %r", point.name, point.value, exc)
            continue
        if isinstance(format, TextFormat):
            formats.setdefault(point.name, format)
        else:
            log.error("the format %s (%s) is no TextFormat", point.name, point.value)
    return formats
