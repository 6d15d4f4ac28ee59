"""The probability that an output is right."""

from __future__ import annotations

import pytest

from gateway.engines.profiles.doubt import Doubt

DOUBT = Doubt(below=0.3, mean=2.0, least=0.5, bias={"en-de": 1.0})


def test_probable_tokens_make_an_output_that_is_probably_right() -> None:
    sure, unsure = ([-0.1, -0.2], [-0.1, -4.0])
    assert DOUBT.probability("en-de", sure) == pytest.approx(
        1 / (1 + 2.718281828 ** -(1 - 0.3 - 0.1))
    )
    assert DOUBT.probability("en-de", unsure) < DOUBT.below < DOUBT.probability("en-de", sure)


def test_no_probability_is_known_without_tokens_or_for_another_direction() -> None:
    assert DOUBT.probability("en-de", []) == 1
    assert DOUBT.probability("en-fr", [-9.0]) == 1
