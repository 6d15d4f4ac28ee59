"""More pairs, made by the model itself: English that lacks a language is translated into it.

    python -m training.extend WORK [--count 900000] [--until 100] [--checkpoint MODEL]

Backwards such a pair is back-translation (https://arxiv.org/abs/1511.06709): the target is English
that somebody wrote. Forwards it is self-distillation, which suits greedy decoding
(https://arxiv.org/abs/1606.07947). The translations that the model was least sure of are dropped.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import time
from collections import defaultdict
from functools import cache, partial
from pathlib import Path

from tokenizers import Tokenizer

from training import figures, pairs, prepare
from training.pairs import Pair
from training.prompt import Text

CORPORA = ("tatoeba", "bcontrast", "ami_dev", "convlab_human", "xrisawoz", "xquad", "tico19", "pud")
"""Whose English is translated: what people say, and a little news; no manuals."""

WORDS = 40
DROPPED = 0.25
"""Share of translations, least probable first, that is left out."""

CHUNK = 4000
"""Translations that a process looks through at a time."""

SLICE = 20_000
"""Texts that are translated before the clock is looked at."""

Made = tuple[list[int], float]


def main() -> None:
    # Not at the top: the processes that look through text start without torch.
    from training import decode

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--count", type=int, default=900_000)
    parser.add_argument("--until", type=float, default=1e9, help="seconds; what is made by then")
    parser.add_argument(
        "--checkpoint", default="checkpoint.pt", help="a file in WORK, or a model directory"
    )
    options = parser.parse_args()
    began = time.monotonic()
    engine = decode.loaded(options.work / options.checkpoint)
    texts = missing(prepare.read(options.work), options.count)
    print(f"{len(texts)} to translate, {time.monotonic() - began:.0f} s", flush=True)
    made: list[Made] = []
    while len(made) < len(texts):
        start = time.monotonic()
        made += engine.scored(texts[len(made) : len(made) + SLICE], loops=False)
        now = time.monotonic()
        print(f"{len(made)} translated, {now - began:.0f} s", flush=True)
        if now + (now - start) > began + options.until:
            del texts[len(made) :]
    chunks = [(texts[at : at + CHUNK], made[at : at + CHUNK]) for at in range(0, len(texts), CHUNK)]
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(max(1, min(16, os.cpu_count() or 1, len(chunks)))) as pool:
        sift = partial(sifted, options.work / prepare.TOKENIZER)
        kept = [one for some in pool.imap(sift, chunks) for one in some]
    kept.sort(key=lambda one: one[0])
    kept = kept[int(len(kept) * DROPPED) :]
    prepare.write(options.work / prepare.SYNTHETIC, (pair for _, pair in kept))
    print(f"{len(kept)} kept, {time.monotonic() - began:.0f} s")


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


def sifted(tokenizer: Path, chunk: tuple[list[Text], list[Made]]) -> list[tuple[float, Pair]]:
    """Return the usable pairs of a chunk, and the model's confidence in each."""
    decoder, rude = _tools(tokenizer)
    kept = []
    for text, (ids, score) in zip(*chunk, strict=True):
        if pairs.looped(ids):
            continue
        pair = Pair("synthetic", text.target, text.text, pairs.clean(decoder.decode(ids)))
        if pairs.usable(pair) and not rude(pair.other, pair.language):
            kept.append((score, pair))
    return kept


@cache
def _tools(tokenizer: Path) -> tuple[Tokenizer, pairs.Blocked]:
    return Tokenizer.from_file(str(tokenizer)), pairs.Blocked()


if __name__ == "__main__":
    main()
