"""Training examples drawn from pairs: which sentence, in which direction, how spoilt, how cut.

Owns: the mixture, and the packing of examples into rows of tokens. Everything is a function of a
seed and a step, so that a run can be resumed and repeated. Must not know: tensors.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training import noise, prepare, slots
from training.figures import LANGUAGES
from training.pairs import SCARCE, WEIGHTS, Pair

ROW = 512
"""Tokens of a row. Examples do not cross rows."""

LONGEST = 320
"""Tokens of an example; longer ones are left out."""


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of the kinds of examples."""

    part: float = 0.36
    """Growing utterances: a prefix of the source under ``<part>`` and that share of the target."""
    joined: float = 0.14
    """Two or three sentences one after the other."""
    recognised: float = 0.35
    """Sources in lower case without punctuation; growing ones are so more often."""
    hesitant: float = 0.1
    renamed: float = 0.5
    """Sentences with a known name or figure get another one."""
    copied: float = 0.01
    """Text of no language here, which is its own translation."""
    split: float = 0.25
    """Sources cut into smaller tokens, much as BPE-dropout does
    (https://arxiv.org/abs/1910.13267)."""
    unmerged: float = 0.1
    """Share of tokens that fall apart then; a source is longer by about a ninth."""


@dataclass(frozen=True, slots=True)
class Example:
    source: str
    target: str
    source_language: str
    target_language: str
    part: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of tokens, all of shape (rows, ROW); and the places where a target is predicted."""

    tokens: NDArray[np.uint16]
    positions: NDArray[np.uint16]
    examples: NDArray[np.uint16]
    """Number, within its row, of the example that a token belongs to; padding is one as well."""
    places: NDArray[np.int32]
    """Flat indices of tokens whose successor is to be predicted; padded with zeros."""
    targets: NDArray[np.int32]
    """The successors."""
    weights: NDArray[np.float32]
    """Weight of each in the loss: 1 in translations, less in sources, 0 in padding."""


class Source:
    """Draws examples. Holds the corpora, so make one for each process."""

    def __init__(
        self, work: Path, mix: Mix, synthetic: float = 0.0, own: float = WEIGHTS["own"]
    ) -> None:
        """Load the corpora.

        :param synthetic: weight of a pair of `training.extend`, as in `WEIGHTS`; 0: none
        :param own: weight of a pair of the project's own sentences
        """
        self.mix = mix
        self._pairs = prepare.read(work)
        if synthetic:
            self._pairs += prepare.read(work, prepare.SYNTHETIC)
        self._own = prepare.read_own(work)
        known = {**WEIGHTS, "synthetic": synthetic}
        weights = itertools.chain(
            (known.get(pair.corpus, 1.0) * SCARCE.get(pair.language, 1.0) for pair in self._pairs),
            # One of these is five pairs.
            itertools.repeat(own * 5, len(self._own)),
        )
        self._cumulative = list(itertools.accumulate(weights))

    def example(self, draw: random.Random) -> Example:
        mix = self.mix
        if draw.random() < mix.copied:
            text, other = slots.strange(draw), draw.choice(LANGUAGES[1:])
            pair = ("en", other) if draw.random() < 0.5 else (other, "en")
            return Example(text, text, *pair)
        language, sides, into = self._sentence(draw)
        if draw.random() < mix.joined:
            for _ in range(draw.choice((1, 1, 2))):
                sides = self._and_another(draw, language, into, sides)
        english, other = sides
        source, target = (other, english) if into else (english, other)
        first, second = (language, "en") if into else ("en", language)

        part = draw.random() < mix.part
        if draw.random() < mix.hesitant:
            source = noise.hesitant(source, first, draw)
        if draw.random() < (2 * mix.recognised if part else mix.recognised):
            source = noise.recognised(source, first) or source
        if part:
            grown = noise.units(source, first)
            count = draw.randint(1, len(grown))
            source, target = noise.grown(grown, noise.units(target, second), count)
        return Example(source, target, first, second, part)

    def _sentence(self, draw: random.Random) -> tuple[str, tuple[str, str], bool]:
        """Return a language, a sentence in English and in it, and whether English is the target."""
        total = self._cumulative[-1]
        at = bisect(self._cumulative, draw.random() * total, hi=len(self._cumulative) - 1)
        if at >= len(self._pairs):
            columns = slots.fill(self._own[at - len(self._pairs)], draw)
            n = draw.randrange(1, len(columns))
            return LANGUAGES[n], (columns[0], columns[n]), draw.random() < 0.5
        pair = self._pairs[at]
        into = draw.random() < 0.5 if pair.way == "both" else pair.way == "into"
        if draw.random() < self.mix.renamed:
            pair = renamed(pair, draw)
        return pair.language, (pair.english, pair.other), into

    def _and_another(
        self, draw: random.Random, language: str, into: bool, sides: tuple[str, str]
    ) -> tuple[str, str]:
        for _ in range(20):
            code, (english, other), way = self._sentence(draw)
            if code == language and way == into and len(english) < 120 and len(sides[0]) < 300:
                gap = "" if language in noise.SPACELESS else " "
                return f"{sides[0]} {english}", f"{sides[1]}{gap}{other}"
        return sides


# Names as they are known in Latin letters, Japanese and Chinese, and whose names they are.
_KNOWN = {name: (katakana, hanzi, whose) for name, katakana, hanzi, whose in slots.NAMES}
_NAME = re.compile(rf"\b(?:{'|'.join(_KNOWN)})\b")
# What names are transcribed with: beside one of these, a name in Chinese is part of a longer one.
_HANZI = "".join(
    sorted(
        {sign for row in (*slots.NAMES, *slots.SURNAMES) for sign in row[2]} | set("戴黛乔蒂凯莱")
    )
)
_FIGURE = re.compile(r"(?<![\d.,])\d{2,4}(?![\d.,]*\d|(?:st|nd|rd|th)\b)")
_LIKE = (
    *((10, last) for last in (12, 24, 31, 59, 99)),
    *((100, 999), (1000, 1699), (1700, 2099), (1000, 9999)),
)
"""Figures that can stand for each other: hours, days, minutes, years."""


def renamed(pair: Pair, draw: random.Random) -> Pair:
    """Return ``pair`` with its names and its figure replaced on both sides, if they are found."""
    english, other, language = pair.english, pair.other, pair.language
    column = LANGUAGES.index(language)
    for name in sorted(set(_NAME.findall(english))):
        old, there = _standing(name, "en"), _standing(name, language)
        if not old.search(english) or len(old.findall(english)) != len(there.findall(other)):
            continue
        values = slots.part("given", draw, _NAMESAKES[_KNOWN[name][2]])
        if values[0] in english or slots.joined(name, language) != slots.joined(
            values[0], language
        ):
            continue
        english = old.sub(values[0], english)
        other = there.sub(values[column], other)
    figures = _FIGURE.findall(english)
    if len(figures) == 1 and _FIGURE.findall(other) == figures:
        for low, high in _LIKE:
            if low <= int(figures[0]) <= high:
                figure = str(draw.randint(low, high))
                english, other = _FIGURE.sub(figure, english), _FIGURE.sub(figure, other)
                break
    return Pair(pair.corpus, language, english, other, pair.way)


@cache
def _standing(name: str, language: str) -> re.Pattern[str]:
    """Return a pattern for ``name`` where another one could stand.

    It matches neither inside a word nor a bare genitive.
    """
    katakana, hanzi, _ = _KNOWN[name]
    if len({"ja": katakana, "zh": hanzi}.get(language, name)) < 2:
        return re.compile("(?!)")  # one character is too often something else
    if language == "ja":
        return re.compile(rf"(?<![ァ-ヺー]){katakana}(?![ァ-ヺー])")
    if language == "zh":
        return re.compile(rf"(?<![{_HANZI}·]){hanzi}(?![{_HANZI}·])")
    # "James' car", "Thomas' Auto"; but "James's" can become "Anna's".
    return re.compile(rf"\b{name}\b(?!['’](?!s\b))")


_NAMESAKES = {
    whose: [row for row in slots.NAMES if row[3] in {whose, "x"} or whose == "x"] for whose in "fmx"
}
"""Names that can stand for a woman's, a man's, and one that either may have."""


class Packer:
    """Makes batches of examples."""

    def __init__(
        self, source: Source, tokenizer: Path, rows: int, seed: int = 0, reading: float = 0.0
    ) -> None:
        """Make an empty packer.

        :param reading: weight of predicting a token of the source
        """
        self.source = source
        self.reading = reading
        self.rows = rows
        self.seed = seed
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._merged = merges(self._tokenizer)
        self._id = self._tokenizer.get_vocab()
        self.places = int(rows * ROW * (0.95 if reading else 0.5))
        """Predicted places of a batch at most; what is over it is not learnt."""

    def batch(self, step: int) -> Batch:
        draw = random.Random(f"{self.seed}/{step}")
        rows: list[list[list[int]]] = []
        starts: list[list[int]] = []
        filled = ROW + 1
        for ids, start in self._endless(draw):
            if filled + len(ids) > ROW:
                if len(rows) == self.rows:
                    break
                rows.append([])
                starts.append([])
                filled = 0
            rows[-1].append(ids)
            starts[-1].append(start)
            filled += len(ids)
        return self._packed(rows, starts)

    def _endless(self, draw: random.Random) -> itertools.chain[tuple[list[int], int]]:
        return itertools.chain.from_iterable(self._some(draw) for _ in itertools.count())

    def _some(self, draw: random.Random, count: int = 512) -> list[tuple[list[int], int]]:
        """Return token ids of some examples, and the index of the first target."""
        examples = [self.source.example(draw) for _ in range(count)]
        sources = encode(self._tokenizer, [example.source for example in examples])
        for n, ids in enumerate(sources):
            if draw.random() < self.source.mix.split:
                sources[n] = unmerged(ids, self._merged, self.source.mix.unmerged, draw)
        targets = encode(self._tokenizer, [example.target for example in examples])
        id = self._id
        made = []
        for example, source, target in zip(examples, sources, targets, strict=True):
            head = [id["<s>"], id[f"<{example.source_language}>"]]
            head.append(id[f"<{example.target_language}>"])
            if example.part:
                head.append(id["<part>"])
            ids = [*head, *source, id["<sep>"], *target, id["</s>"]]
            if len(ids) <= LONGEST:
                made.append((ids, len(ids) - len(target) - 1))
        return made

    def _packed(self, rows: Sequence[list[list[int]]], starts: Sequence[list[int]]) -> Batch:
        shape = (len(rows), ROW)
        tokens = np.zeros(shape, np.uint16)
        positions = np.zeros(shape, np.uint16)
        examples = np.full(shape, ROW, np.uint16)
        places: list[int] = []
        targets: list[int] = []
        weights: list[float] = []
        for n, (row, begins) in enumerate(zip(rows, starts, strict=True)):
            at = 0
            for which, (ids, begin) in enumerate(zip(row, begins, strict=True)):
                end = at + len(ids)
                tokens[n, at:end] = ids
                positions[n, at:end] = range(len(ids))
                examples[n, at:end] = which
                first = 3 if self.reading else begin
                places += range(n * ROW + at + first - 1, n * ROW + end - 1)
                targets += ids[first:]
                weights += [self.reading] * (begin - first) + [1.0] * (len(ids) - begin)
                at = end
        padding = max(0, self.places - len(places))
        return Batch(
            tokens,
            positions,
            examples,
            np.array(places[: self.places] + [0] * padding, np.int32),
            np.array(targets[: self.places] + [0] * padding, np.int32),
            np.array(weights[: self.places] + [0.0] * padding, np.float32),
        )


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [made.ids for made in tokenizer.encode_batch(list(texts), add_special_tokens=False)]


Merged = Mapping[int, tuple[int, int]]
"""The two tokens that a token was merged of."""


def merges(tokenizer: Tokenizer) -> Merged:
    model = json.loads(tokenizer.to_str())["model"]
    pairs = (merge if isinstance(merge, list) else merge.split(" ") for merge in model["merges"])
    id = model["vocab"]
    return {id[left + right]: (id[left], id[right]) for left, right in pairs}


def unmerged(ids: Sequence[int], merged: Merged, share: float, draw: random.Random) -> list[int]:
    """Return ``ids`` with a ``share`` of them split into the tokens they were merged of.

    The tokenizer's own dropout has no seed: with it, a batch would be another each time.
    """
    made = []
    left = list(reversed(ids))
    while left:
        id = left.pop()
        if id in merged and draw.random() < share:
            left += reversed(merged[id])
        else:
            made.append(id)
    return made
