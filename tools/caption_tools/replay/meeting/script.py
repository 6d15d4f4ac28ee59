"""A meeting in a file: who says what and when, and what readers saw of it.

Owns: the formats of ``gateway replay`` and ``gateway record``, and filling in what a file leaves
out. Must not know: disks, clocks, gateways.

**JSON lines**, one utterance each. Times are seconds since the meeting began::

    {"id": "7", "speaker": "Anna", "lang": "en", "t0": 12.0, "t1": 14.1,
     "text": "Good morning, Ben.",
     "words": [["Good", 12.5], ["morning", 13.1], ["Ben", 13.9]],
     "updates": [[12.6, "good"], [13.2, "good morning"], [13.5, "good morning then"]],
     "references": {"de": "Guten Morgen, Ben."},
     "shown": {"de": [[13.3, "", "Guten Morgen"], [14.3, "Guten Morgen, Ben.", "", true]]}}

``lang`` is mandatory, and so is ``text`` or ``words``: the final text, or each word with the second
at which it has been said. ``updates`` are what the recogniser sent meanwhile, each the whole text
so far; without them `recogniser` makes them. ``t0`` and ``t1`` are when the utterance began and
when its final text was there; without them it begins a pause after the one before. ``references``
are human translations. ``shown`` is what readers saw in a recording: since when, stable text,
draft, and whether the caption had ended.

**Columns** separated by tabs, one utterance a line: the source and its translations. All times and
updates are simulated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, starmap

import msgspec
from msgspec import field

from caption_tools.speech import recogniser
from caption_tools.speech.recogniser import RecogniserRandom
from gateway.errors import ClientFault
from gateway.text import languages, word_units

USUAL = ("en", "de", "fr", "es", "ja", "zh")
"""Languages of the columns of a file that has six and does not name them."""

_NAMED = re.compile(r"\.([A-Za-z]{2,3})-([A-Za-z]{2,3})\.\w+$")


class RecogniserUpdate(msgspec.Struct, frozen=True, array_like=True):
    """The text that a recogniser had understood at a time, in seconds."""

    at: float
    text: str


class ShownCaption(msgspec.Struct, frozen=True, array_like=True):
    """The text of one caption on a reader's screen since a time, in seconds.

    ``ended``: it does not change any more. If an ended one is empty, there is no caption.
    """

    at: float
    stable: str
    draft: str = ""
    ended: bool = False

    @property
    def text(self) -> str:
        return self.stable + self.draft


class ScriptUtterance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One utterance of a meeting with all its fields; see the head of this module."""

    id: str
    lang: str
    text: str
    t0: float
    t1: float
    updates: tuple[RecogniserUpdate, ...] = ()
    speaker: str | None = None
    references: dict[str, str] = field(default_factory=dict)
    shown: dict[str, tuple[ShownCaption, ...]] = field(default_factory=dict)


class _ScriptLine(msgspec.Struct, frozen=True, kw_only=True):
    """An utterance as a file has it, with fields missing."""

    lang: str
    text: str = ""
    words: tuple[tuple[str, float], ...] = ()
    id: str | None = None
    speaker: str | None = None
    t0: float | None = None
    t1: float | None = None
    updates: tuple[RecogniserUpdate, ...] = ()
    references: dict[str, str] = field(default_factory=dict)
    shown: dict[str, tuple[ShownCaption, ...]] = field(default_factory=dict)


def parse(text: str, draw: RecogniserRandom) -> list[ScriptUtterance]:
    """Return the utterances of a file of JSON lines. Raises `ValueError` that names the line."""
    lines: list[_ScriptLine] = []
    for number, row in _rows(text):
        try:
            lines.append(_checked(msgspec.json.decode(row, type=_ScriptLine)))
        except ValueError as exc:  # msgspec's errors are ValueErrors
            raise ValueError(f"Line {number}: {str(exc).rstrip('.')}.") from exc
    return _filled(lines, draw)


def columns(
    text: str,
    name: str,
    draw: RecogniserRandom,
    *,
    langs: Sequence[str] = (),
    source: str | None = None,
) -> list[ScriptUtterance]:
    """Return the utterances of a file of columns.

    :param name: file name, which names the languages if ``langs`` does not: ``talk.en-de.tsv``;
        else they are `USUAL`
    :param langs: languages of the columns; further columns are ignored
    :param source: language of the column that is said; None: the first

    Raises `ValueError`.
    """
    rows = [(number, row.split("\t")) for number, row in _rows(text)]
    if not rows:
        return []
    langs = [_tag(lang) for lang in langs or _named(name, len(rows[0][1]))]
    source = _tag(source) if source is not None else langs[0]
    if source not in langs:
        raise ValueError(f"No column is in {source}: the file has {', '.join(langs)}.")
    lines = []
    for number, cells in rows:
        if len(cells) < len(langs):
            raise ValueError(f"Line {number}: it has {len(cells)} columns, not {len(langs)}.")
        texts = {lang: cell.strip() for lang, cell in zip(langs, cells, strict=False)}
        said = texts.pop(source)
        # A translation may be missing, the source not.
        if not said:
            raise ValueError(f"Line {number}: nothing is said in it.")
        lines.append(_ScriptLine(lang=source, text=said, references=texts))
    return _filled(lines, draw)


def _rows(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers."""
    for number, row in enumerate(text.split("\n"), 1):
        if row.strip():
            yield number, row.rstrip("\r")


def _named(name: str, count: int) -> Sequence[str]:
    match = _NAMED.search(name)
    if match:
        return match.groups()
    if count == len(USUAL):
        return USUAL
    raise ValueError(f"Which languages are its {count} columns? Say e.g. --columns en,de.")


def _checked(line: _ScriptLine) -> _ScriptLine:
    """Return the line with canonical tags. Raises `ValueError`."""
    if not (line.text.strip() or line.words):
        raise ValueError("It has neither text nor words.")
    times = [update.at for update in line.updates] or [at for _, at in line.words]
    around = [t for t in (line.t0, *times, line.t1) if t is not None]
    if any(later < earlier for earlier, later in pairwise([0.0, *around])):
        raise ValueError("Its times do not rise.")
    return msgspec.structs.replace(
        line, lang=_tag(line.lang), references=_tagged(line.references), shown=_tagged(line.shown)
    )


def _tag(text: str) -> str:
    """Return a canonical tag. Raises `ValueError`."""
    try:
        return languages.normalise(text)
    except ClientFault as fault:
        raise ValueError(str(fault)) from fault


def _tagged(texts: dict[str, recogniser.T]) -> dict[str, recogniser.T]:
    return {_tag(lang): text for lang, text in texts.items()}


def _filled(lines: Sequence[_ScriptLine], draw: RecogniserRandom) -> list[ScriptUtterance]:
    """Return the utterances by the order of their beginnings, with times and updates."""
    vocabularies: dict[str, set[str]] = {}
    for line in lines:
        words = vocabularies.setdefault(line.lang, set())
        words |= {word for word in map(recogniser.heard, _said(line)) if word}
    known = {lang: sorted(words) for lang, words in vocabularies.items()}
    made: list[ScriptUtterance] = []
    free = 0.0
    for number, line in enumerate(lines, 1):
        made.append(_whole(line, str(number), free, draw, known[line.lang]))
        free = made[-1].t1 + recogniser.PAUSE_S
    ids = [utterance.id for utterance in made]
    # Captions are matched to utterances by id.
    if len(set(ids)) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise ValueError(f"Two utterances have the id {twice!r}.")
    return sorted(made, key=lambda utterance: utterance.t0)


def _said(line: _ScriptLine) -> Iterable[str]:
    if line.words:
        return [word for word, _ in line.words]
    return recogniser.words(line.text, spaced=word_units.spaced(line.lang))


def _whole(
    line: _ScriptLine, id: str, free: float, draw: RecogniserRandom, vocabulary: Sequence[str]
) -> ScriptUtterance:
    spaced = word_units.spaced(line.lang)
    text = line.text.strip() or (" " if spaced else "").join(_said(line))
    begin = line.t0
    if begin is None:
        given = [update.at for update in line.updates] or [at for _, at in line.words]
        begin = max(0.0, given[0] - recogniser.UPDATE_S) if given else free
    words = line.words or recogniser.timed(text, begin, line.t1, spaced=spaced)
    end = line.t1
    if end is None:
        end = line.updates[-1].at if line.updates else words[-1][1]
    heard = line.updates or starmap(
        RecogniserUpdate,
        recogniser.updates(words, begin, end, spaced=spaced, draw=draw, vocabulary=vocabulary),
    )
    return ScriptUtterance(
        id=line.id if line.id is not None else id,
        lang=line.lang,
        text=text,
        t0=begin,
        t1=end,
        updates=tuple(heard),
        speaker=line.speaker,
        references={lang: text for lang, text in line.references.items() if text},
        shown=line.shown,
    )


def faster(utterances: Iterable[ScriptUtterance], speed: float) -> list[ScriptUtterance]:
    """Return the meeting with everything said ``speed`` times as fast, without ``shown``."""
    return [
        msgspec.structs.replace(
            utterance,
            t0=utterance.t0 / speed,
            t1=utterance.t1 / speed,
            updates=tuple(
                RecogniserUpdate(update.at / speed, update.text) for update in utterance.updates
            ),
            shown={},
        )
        for utterance in utterances
    ]
