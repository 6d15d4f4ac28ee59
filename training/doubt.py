"""The doubt of a model about its translations, fitted to outputs that were read and graded.

    python -m training.doubt MODEL --write SHEET       # translate the graded sentences again
    python -m training.doubt MODEL [GRADED] [--precision 0.8]

``GRADED`` has a line for each sentence: direction, kind, source, output and grade, tab-separated.
The grades are ``g`` (good), ``o`` (a flaw of style or of a minor word), ``w`` (wrong: a reader is
told something else) and ``a`` (absurd). The first form writes such a file with the outputs of
MODEL by a beam of four, as captions are translated, and without grades: two readers who wrote none
of the sentences should grade it. The second fits the probability that an output is right to
the mean and the least log probability of its tokens and to its direction, by logistic regression.
It prints the table ``unsure`` of the model's profile, and how many wrong outputs that finds, each
judged by a fit to the other nine tenths of the lines.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from training.evaluate import CTranslate2
from training.prompt import END, Text

Array = np.ndarray[Any, Any]

SENTENCES = Path(__file__).resolve().parents[1] / "tests" / "quality" / "graded.tsv"
BEAM = 4
FOLDS = 10
RIDGE = 0.1
"""Penalty on the square of a weight, so that few lines of a direction say little."""


class Graded(NamedTuple):
    """A translation that was read."""

    direction: str
    kind: str
    source: str
    output: str
    grade: str = ""

    @property
    def wrong(self) -> bool:
        return self.grade in ("w", "a")

    @property
    def text(self) -> Text:
        source, target = self.direction.split("-")
        return Text(self.source, source, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("graded", type=Path, nargs="?", default=SENTENCES)
    parser.add_argument("--write", type=Path, help="file for the outputs, to be graded")
    parser.add_argument("--precision", type=float, default=0.8, help="share of flags to be right")
    options = parser.parse_args()
    model = CTranslate2(options.model, beam=BEAM)
    lines = read(options.graded)
    if options.write:
        made = model([line.text for line in lines])
        again = (
            line._replace(output=model.text(ids), grade="")
            for line, ids in zip(lines, made, strict=True)
        )
        options.write.write_text("".join("\t".join(line) + "\n" for line in again), "utf-8")
        return
    values, wrong = features(model, lines), np.array([line.wrong for line in lines])
    directions = sorted({line.direction for line in lines})
    rows = np.hstack([values, [[line.direction == one for one in directions] for line in lines]])
    judged = crossed(rows, ~wrong)
    below = threshold(judged, wrong, options.precision)
    flagged = judged < below
    found = (flagged & wrong).sum() / wrong.sum()
    print(
        f"# {len(lines)} outputs, {wrong.mean():.1%} wrong: {found:.0%} of those flagged at a"
        f" precision of {(flagged & wrong).sum() / max(1, flagged.sum()):.0%}; area"
        f" {area(judged, wrong):.3f}"
    )
    mean, least, *bias = fit(rows, ~wrong)
    print(f"[unsure]\nbelow = {below:.3f}\nmean = {mean:.3f}\nleast = {least:.3f}")
    print(
        "bias = {", ", ".join(f"{d} = {b:.2f}" for d, b in zip(directions, bias, strict=True)), "}"
    )
    for low in np.arange(0, 1, 0.2):
        some = (judged >= low) & (judged < low + 0.2)
        right = 1 - wrong[some].mean() if some.any() else float("nan")
        print(f"# p {low:.1f} to {low + 0.2:.1f}: {right:.0%} of {some.sum()} are right")


def read(path: Path) -> list[Graded]:
    """Return the lines of a file of graded translations."""
    return [Graded(*line.split("\t")) for line in path.read_text("utf-8").splitlines()]


def features(model: CTranslate2, lines: Sequence[Graded]) -> Array:
    """Return the mean and the least log probability of the tokens of each output, its end too."""
    spelt = model.tokenizer.encode_batch([line.output for line in lines], add_special_tokens=False)
    scores = model.scores([line.text for line in lines], [[*one.ids, END] for one in spelt])
    return np.array([[np.mean(found), min(found)] for found in scores])


def fit(rows: Array, right: Array) -> Array:
    """Return the weights of a logistic regression, by Newton's method."""
    weights = np.zeros(rows.shape[1])
    for _ in range(30):
        p = probability(rows, weights)
        slope = rows.T @ (right - p) - RIDGE * weights
        curve = (rows * (p * (1 - p))[:, None]).T @ rows + RIDGE * np.eye(len(weights))
        weights += np.linalg.solve(curve, slope)
    return weights


def probability(rows: Array, weights: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-rows @ weights)))


def crossed(rows: Array, right: Array) -> Array:
    """Return the probability of each row by a fit to the other folds."""
    order = list(range(len(rows)))
    random.Random(1).shuffle(order)
    judged = np.zeros(len(rows))
    for fold in range(FOLDS):
        out = order[fold::FOLDS]
        rest = np.setdiff1d(order, out)
        judged[out] = probability(rows[out], fit(rows[rest], right[rest]))
    return judged


def threshold(judged: Array, wrong: Array, precision: float) -> float:
    """Return the largest bound under which at least this share of the outputs is wrong."""
    best = 0.0
    for bound in np.unique(judged):
        under = judged < bound
        if under.any() and wrong[under].mean() >= precision:
            best = float(bound)
    return best


def area(judged: Array, wrong: Array) -> float:
    """Return how often a right output has a higher probability than a wrong one."""
    pairs = judged[~wrong][:, None] - judged[wrong][None, :]
    return float((pairs > 0).mean() + (pairs == 0).mean() / 2)


if __name__ == "__main__":
    main()
