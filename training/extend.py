"""More pairs, made by the model itself: English that lacks a language, and text in one language.

    python -m training.extend WORK [--count 900000] [--until 100] [--checkpoint MODEL]

Such a pair is learnt backwards alone, as back-translation (https://arxiv.org/abs/1511.06709): the
target is text that somebody wrote, and what the model made is the source. Forwards it would learn
its own mistakes ("Comment est le froid de Tom ?"). Dropped are the translations that the model was
least sure of, and those that do not come back as what was said when they are translated back
(https://arxiv.org/abs/1711.00215).
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import time
from collections import Counter, defaultdict
from functools import cache, partial
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from training import figures, noise, pairs, prepare
from training.pairs import Pair
from training.prompt import Text

if TYPE_CHECKING:
    from training import decode

CORPORA = ("tatoeba", "bcontrast", "ami_dev", "convlab_human", "xrisawoz", "xquad", "tico19", "pud")
"""Whose English is translated: what people say, and a little news; no manuals."""

WORDS = 40
DROPPED = 0.15
"""Share of translations, least probable first, that is left out."""

SAME, SAME_SPACELESS = 0.5, 0.3
"""The least `agreement` of a text with what its translation is when translated back: two signs of
Chinese or Japanese are a word, of which there are many more than pairs of letters."""

CHUNK = 4000
"""Translations that a process looks through at a time."""

SLICE = 100_000
"""Texts that a process translates before the clock is looked at: many of one length are quicker."""

BESIDE = 2
"""Processes on a GPU: one alone waits for Python half of the time."""

Made = tuple[list[int], float, str]
"""The ids of a translation, its mean log probability, and the text it is translated back to."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--count", type=int, default=900_000)
    parser.add_argument("--until", type=float, default=1e9, help="seconds; what is made by then")
    parser.add_argument(
        "--checkpoint", default="checkpoint.pt", help="a file in WORK, or a model directory"
    )
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0, help="of the order of the texts")
    options = parser.parse_args()
    # Not at the top: the processes that look through text start without torch.
    from training import decode

    began = time.monotonic()
    spawn = multiprocessing.get_context("spawn")
    devices = decode.devices() * BESIDE
    names = spawn.SimpleQueue()
    for name in devices:
        names.put(name)
    begin = (options.work / options.checkpoint, names)
    sift = partial(sifted, options.work / prepare.TOKENIZER)
    with (
        spawn.Pool(len(devices), _begin, begin) as translators,
        spawn.Pool(max(1, min(options.workers, os.cpu_count() or 1))) as pool,
    ):
        texts = missing(prepare.read(options.work), options.count)
        texts += foreign(prepare.read_lone(options.work))
        random.Random(options.seed).shuffle(texts)
        print(f"{len(texts)} to translate, {time.monotonic() - began:.0f} s", flush=True)
        waiting = []
        step = SLICE * len(devices)
        for at in range(0, len(texts), step):
            round = [texts[n : n + SLICE] for n in range(at, min(at + step, len(texts)), SLICE)]
            start = time.monotonic()
            for some, made in zip(round, translators.map(_there_and_back, round, 1), strict=True):
                waiting += [
                    pool.apply_async(sift, ((some[n : n + CHUNK], made[n : n + CHUNK]),))
                    for n in range(0, len(some), CHUNK)
                ]
            now = time.monotonic()
            print(f"{min(at + step, len(texts))} translated, {now - began:.0f} s", flush=True)
            if now + (now - start) > began + options.until:
                break
        kept = [one for some in waiting for one in some.get()]
    kept.sort(key=lambda one: one[0])
    kept = kept[int(len(kept) * DROPPED) :]
    prepare.write(options.work / prepare.SYNTHETIC, (pair for _, pair in kept))
    print(f"{len(kept)} kept, {time.monotonic() - began:.0f} s")


_given: tuple[Path, str]


def _begin(checkpoint: Path, names: SimpleQueue[str]) -> None:
    """Take a GPU for this process."""
    global _given
    _given = (checkpoint, names.get())


@cache
def _engine() -> decode.Torch:
    """Load the model with the first texts, so that its errors are raised where they are awaited."""
    from training import decode

    checkpoint, device = _given
    return decode.loaded(checkpoint, device=device)


def _there_and_back(texts: list[Text]) -> list[Made]:
    """Return the translation of each text, and the one of that into the language of the text."""
    engine = _engine()
    there = engine.scored(texts, loops=False)
    said = engine.texts([ids for ids, _ in there])
    back = engine.scored(
        [Text(new, text.target, text.source) for text, new in zip(texts, said, strict=True)],
        loops=False,
    )
    again = engine.texts([ids for ids, _ in back])
    return [(ids, score, text) for (ids, score), text in zip(there, again, strict=True)]


def missing(rows: list[Pair], count: int) -> list[Text]:
    """Yield English sentences, each with a language in which no pair has it."""
    there: dict[str, set[str]] = defaultdict(set)
    for pair in rows:
        if pair.corpus in CORPORA and len(pair.english.split()) <= WORDS:
            there[pair.english].add(pair.language)
    texts = [
        Text(english, "en", language)
        for english, languages in there.items()
        for language in figures.LANGUAGES[1:]
        if language not in languages
    ]
    random.Random(0).shuffle(texts)
    return texts[:count]


def foreign(lone: list[tuple[str, str]]) -> list[Text]:
    """Return text in one language with the language that it is to be translated into."""
    return [
        Text(text, language, target)
        for language, text in lone
        for target in (figures.LANGUAGES[1:] if language == "en" else ("en",))
    ]


def sifted(tokenizer: Path, chunk: tuple[list[Text], list[Made]]) -> list[tuple[float, Pair]]:
    """Return the usable pairs of a chunk, and the model's confidence in each."""
    decoder, rude = _tools(tokenizer)
    kept = []
    for text, (ids, score, again) in zip(*chunk, strict=True):
        least = SAME_SPACELESS if text.source in noise.SPACELESS else SAME
        if pairs.looped(ids) or agreement(text.text, again) < least:
            continue
        made = pairs.clean(decoder.decode(ids))
        if text.source == "en":
            pair = Pair("synthetic", text.target, text.text, made, way="into")
        else:
            pair = Pair("synthetic", text.source, made, text.text, way="from")
        if pairs.usable(pair) and not rude(made, text.target):
            kept.append((score, pair))
    return kept


def agreement(one: str, other: str) -> float:
    """Return the F1 measure of the pairs of neighbouring letters of two texts, in any case."""
    first, second = (
        Counter(a + b for a, b in itertools.pairwise(filter(str.isalnum, text.lower())))
        for text in (one, other)
    )
    both = first.total() + second.total()
    return 2 * (first & second).total() / both if both else float(one == other)


@cache
def _tools(tokenizer: Path) -> tuple[Tokenizer, pairs.Blocked]:
    return Tokenizer.from_file(str(tokenizer)), pairs.Blocked()


if __name__ == "__main__":
    main()
