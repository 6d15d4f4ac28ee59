"""The fit of the model's doubt: what it learns, and how it is judged."""

from __future__ import annotations

import numpy as np
import pytest

from training import doubt
from training.figures import LANGUAGES


def sample(count: int = 2_000) -> tuple[doubt.Array, doubt.Array, doubt.Array]:
    """Return rows, weights, and whether each row is right, drawn with the probability they give."""
    draw = np.random.default_rng(1)
    rows = np.column_stack([draw.normal(-0.5, 0.3, count), np.ones(count)])
    weights = np.array([4.0, 2.5])
    return rows, weights, draw.random(count) < doubt.probability(rows, weights)


def test_the_weights_that_made_the_grades_are_found() -> None:
    rows, weights, right = sample()
    assert doubt.fit(rows, right) == pytest.approx(weights, abs=0.5)


def test_no_line_is_judged_by_a_fit_to_itself() -> None:
    rows, _, _ = sample(20)
    alone = np.column_stack([rows, np.eye(20)])  # a column for each line alone
    right = np.arange(20) % 2 == 0
    judged = doubt.crossed(alone, right)
    assert not np.all((judged > 0.5) == right)
    known = doubt.probability(alone, doubt.fit(alone, right))
    assert np.all((known > 0.5) == right)


def test_the_threshold_flags_as_many_as_the_precision_allows() -> None:
    judged = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    wrong = np.array([True, True, False, True, False])
    assert doubt.threshold(judged, wrong, 1.0) == 0.3
    assert doubt.threshold(judged, wrong, 0.75) == 0.5
    assert doubt.threshold(judged, ~wrong, 1.0) == 0.0


def test_the_area_is_the_share_of_pairs_in_the_right_order() -> None:
    judged = np.array([0.9, 0.8, 0.5, 0.5])
    assert doubt.area(judged, np.array([False, True, False, True])) == (1 + 1 + 0 + 0.5) / 4


def test_every_graded_line_has_a_known_direction_and_grade() -> None:
    lines = doubt.read(doubt.SENTENCES)
    directions = {f"en-{other}" for other in LANGUAGES[1:]} | {
        f"{other}-en" for other in LANGUAGES[1:]
    }
    assert {line.direction for line in lines} == directions
    assert {line.grade for line in lines} == set("gowa")
    assert all(line.source and line.kind for line in lines)
    assert len({(line.direction, line.source) for line in lines}) == len(lines)
