"""Corpora made into the files that training reads: one file of pairs, one of own sentences, a
tokenizer.

    python -m training.prepare DATA WORK

``DATA`` has ``train/<corpus>/en-<language>.tsv`` and ``dev/*.tsv``, and may have
``mono/<language>.txt``, text in one language, a sentence a line; ``WORK`` is made.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from training import figures, noise, pairs, slots
from training.pairs import Pair

CONTROLS = ("<pad>", "<s>", "</s>", "<sep>", "<part>", *(f"<{code}>" for code in figures.LANGUAGES))
VOCABULARY = 16_384
PAIRS, SYNTHETIC, OWN, LONE = "pairs.tsv.gz", "synthetic.tsv.gz", "own.tsv", "lone.tsv.gz"
TOKENIZER = "tokenizer.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--keep-tokenizer", action="store_true")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)

    here = Path(__file__).parent
    # What quality is measured with: that of the data, and that of the tests.
    held = [
        *sorted((options.data / "dev").glob("*.tsv")),
        *sorted((here.parent / "tests" / "quality").glob("*.tsv")),
    ]
    near = pairs.Near(text for path in held for text in _columns(path))
    corpus = here / "corpus"
    own = list({columns[0]: columns for columns in pairs.own(corpus)}.values())
    kept = [columns for columns in own if not near(slots.SLOT.sub("", columns[0]))]
    print(f"own sentences: {len(kept)}; left out as near to a held-out one: {len(own) - len(kept)}")
    text = "".join("\t".join(row) + "\n" for row in kept)
    (options.work / OWN).write_text(text, "utf-8")

    rows = list(pairs.corpora(options.data / "train"))
    write(options.work / PAIRS, rows)
    lone = [
        (path.stem, text)
        for path in sorted((options.data / "mono").glob("*.txt"))
        for text in pairs.lone(path)
        if not near(text)
    ]
    with gzip.open(options.work / LONE, "wt", encoding="utf-8", compresslevel=6) as file:
        file.writelines(f"{language}\t{text}\n" for language, text in lone)
    print(f"in one language: {len(lone)}")
    counts = collections.Counter((pair.corpus, pair.language) for pair in rows)
    for (name, language), count in sorted(counts.items()):
        print(f"{name:22} {language} {count:7}")

    if not (options.keep_tokenizer and (options.work / TOKENIZER).is_file()):
        tokenizer = cut(_sample(rows, kept), options.vocabulary)
        tokenizer.save(str(options.work / TOKENIZER))


def write(path: Path, rows: Iterable[Pair]) -> None:
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=6) as file:
        for pair in rows:
            file.write("\t".join((pair.corpus, pair.language, pair.way, pair.english, pair.other)))
            file.write("\n")


def read(work: Path, name: str = PAIRS) -> list[Pair]:
    """Return the pairs that `main` or `training.extend` wrote."""
    with gzip.open(work / name, "rt", encoding="utf-8") as file:
        rows = (line.rstrip("\n").split("\t") for line in file)
        return [Pair(name, code, english, other, way) for name, code, way, english, other in rows]


def read_lone(work: Path) -> list[tuple[str, str]]:
    """Return languages and texts of lines that are there in one language alone."""
    with gzip.open(work / LONE, "rt", encoding="utf-8") as file:
        rows = (line.rstrip("\n").split("\t") for line in file)
        return [(language, text) for language, text in rows]


def read_own(work: Path) -> list[tuple[str, ...]]:
    text = (work / OWN).read_text("utf-8")
    return [tuple(line.split("\t")) for line in text.splitlines()]


def cut(texts: Iterator[str], size: int) -> Tokenizer:
    """Train a byte-level BPE of ``size`` entries that can write any text, digits one by one."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(CONTROLS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _sample(rows: list[Pair], own: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield text in about the mixture of training; some of it as speech recognition gives it."""
    draw = random.Random(0)
    for pair in rows:
        double = 2 if pair.language in noise.SPACELESS else 1
        if draw.random() < double * pairs.WEIGHTS.get(pair.corpus, 1.0):
            for text, code in ((pair.english, "en"), (pair.other, pair.language)):
                yield noise.recognised(text, code) if draw.random() < 0.25 else text
    for columns in own:
        for _ in range(2):
            yield from slots.fill(columns, draw)
        for text, code in zip(slots.fill(columns, draw), figures.LANGUAGES, strict=True):
            yield noise.recognised(text, code)


def _columns(path: Path) -> list[str]:
    """Return the sentences of a held-out file in all of its languages."""
    return [text for line in path.read_text("utf-8").split("\n") for text in line.split("\t")]


if __name__ == "__main__":
    main()
