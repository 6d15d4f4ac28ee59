"""Places at which growing speech without punctuation is cut, and their price in translation.

    python -m benchmarks.segments dialogue-bcontrast.en-de.tsv [--texts 60] [--words 30-55]
        [--said de] [--vary most=14,20,28] [--no-translations]

The lines of a file as for ``gateway replay`` are joined to texts of 30 to 55 words, as if one
person spoke them, in lower case and without punctuation. The simulated recogniser sends them word
by word to the code of the room that cuts growing text; nothing is translated meanwhile. ``--vary``
takes the fields of `SegmentLengths`.

Prints a line for each setting: captions of a text, mean words of those that were cut off, and where
the cuts are: in per cent at the end of a ``sentence`` of the original, at another ``mark``, or at
``no`` mark. ``chrF`` is that of the captions, translated one by one and joined, minus ``whole``,
that of the texts translated in one piece.
"""

from __future__ import annotations

import argparse
import asyncio
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.captions import settings
from benchmarks.simulated_meeting import Translator, alone
from gateway.cli.replay import score
from gateway.cli.replay.meeting import recogniser
from gateway.cli.replay.meeting.recogniser import heard
from gateway.cli.replay.play import load
from gateway.core.streaming.options import StreamingOptions
from gateway.core.utterances.speech import Speech
from gateway.core.utterances.utterance import Utterance
from gateway.engines.registry import build
from gateway.settings.catalogue import Settings
from gateway.text import units


class Spoken(NamedTuple):
    """A text with its punctuation, and its translation."""

    text: str
    reference: str


def joined(
    path: Path, to: str | None, source: str | None, words: tuple[int, int], draw: Random
) -> tuple[str, str, Iterator[Spoken]]:
    """Return the language of a file, that of its translations, and texts joined of its lines."""
    lines = load(path, seed=0, langs=(), source=source)
    lang = lines[0].lang
    target = to or next(iter(lines[0].references))
    gaps = [" " if units.spaced(tag) else "" for tag in (lang, target)]

    def texts() -> Iterator[Spoken]:
        said: list[Spoken] = []
        wanted = draw.randint(*words)
        for one in lines:
            said.append(Spoken(one.text, one.references.get(target, "")))
            text = gaps[0].join(line.text for line in said)
            reference = gaps[1].join(line.reference for line in said)
            count = len(units.keyed(text, units.spaced(lang))[0]) / units.density(lang)
            if count >= wanted:
                # Numbers and signs may be spelt otherwise without punctuation.
                if (
                    units.keyed(text, units.spaced(lang))[0]
                    == units.keyed(heard(text), units.spaced(lang))[0]
                ):
                    yield Spoken(text, reference)
                said, wanted = [], draw.randint(*words)

    return lang, target, texts()


def spoken(text: str, lang: str, flow: StreamingOptions, draw: Random) -> list[str]:
    """Return the captions of a text that grows as a recogniser hears it."""
    spaced = units.spaced(lang)
    times = recogniser.timed(text, 0.0, spaced=spaced)
    speech = Speech("u1", "speaker", flow)
    speech.parts.append(Utterance(speech.name(()), 1, "speaker"))
    parts = []
    for at, partial in recogniser.updates(times, 0.0, times[-1][1], spaced=spaced, draw=draw):
        speech.text = partial
        speech.offer(lang, at, at)
        while (head := speech.cut(lang)) is not None:
            parts.append(head)
        due = speech.policy.due(at)
        if due is not None and due <= at:
            speech.policy.admit(at)
    speech.text = heard(text)
    rest = speech.remainder(lang)
    return [*parts, rest] if rest else parts


def places(text: str, parts: Sequence[str], lang: str) -> Iterator[str]:
    """Yield the kind of place of each cut: sentence, mark, or no."""
    _, ends = units.keyed(text, units.spaced(lang))
    count = 0
    for part in parts[:-1]:
        count += len(units.keyed(part, units.spaced(lang))[0])
        end = start = ends[count - 1]
        while unicodedata.category(text[start - 1])[0] in "PS":
            start -= 1
        marks = set(text[start:end])
        yield "sentence" if marks & set(".!?…。！？") else "mark" if marks else "no"


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="as for gateway replay")
    parser.add_argument("--said", help="language that is spoken; default: the first of the file")
    parser.add_argument("--to", help="language of the captions; default: the next of the file")
    parser.add_argument("--texts", type=int, default=60, help="of each file, default: %(default)s")
    parser.add_argument("--words", default="30-55", help="of a text, default: %(default)s")
    parser.add_argument("--vary", action="append", default=[], metavar="NAME=VALUE[,VALUE]")
    parser.add_argument("--no-translations", action="store_true", help="needs no model")
    args = parser.parse_args()
    least, _, most = args.words.partition("-")
    engine = build(Settings(hang_s=3600.0))
    if not args.no_translations:
        await engine.start()
    translator = Translator(engine)
    flows = settings(args.vary, product=True)
    try:
        for path in args.files:
            lang, to, found = joined(path, args.to, args.said, (int(least), int(most)), Random(7))
            texts = [text for text, _ in zip(found, range(args.texts), strict=False)]
            references = [one.reference for one in texts]
            whole = 0.0
            if not args.no_translations:
                offline = await alone([(lang, heard(one.text)) for one in texts], [to], translator)
                whole = score.chrf(offline.texts[to], references)
            print(f"{path.name}, {len(texts)} texts, {lang}-{to}, whole {whole:.1f}")
            for name, flow in flows.items():
                draw = Random(0)
                parts = [spoken(one.text, lang, flow, draw) for one in texts]
                kinds = Counter(
                    kind
                    for one, pieces in zip(texts, parts, strict=True)
                    for kind in places(one.text, pieces, lang)
                )
                cuts = max(1, kinds.total())
                shares = ", ".join(
                    f"{kind} {100 * n / cuts:.0f}" for kind, n in kinds.most_common()
                )
                words = sum(
                    len(units.keyed(piece, units.spaced(lang))[0])
                    for pieces in parts
                    for piece in pieces[:-1]
                )
                line = f"  {name}: {1 + cuts / len(texts):.2f} captions of"
                line += f" {words / cuts / units.density(lang):.1f} words, {shares}"
                if not args.no_translations:
                    flat = [(lang, piece) for pieces in parts for piece in pieces]
                    made = iter((await alone(flat, [to], translator)).texts[to])
                    gap = " " if units.spaced(to) else ""
                    texts_made = [gap.join(next(made) for _ in pieces) for pieces in parts]
                    line += f", chrF {score.chrf(texts_made, references) - whole:+.2f}"
                print(line, flush=True)
    finally:
        await engine.aclose()


if __name__ == "__main__":
    asyncio.run(main())
