"""The figures of the story are the published ones, one for each architecture."""

from __future__ import annotations

from benchmarks.journey.plan import ARCHITECTURES
from benchmarks.journey.published import FIGURES


def test_every_architecture_has_its_published_figures_in_order() -> None:
    assert [one.architecture for one in FIGURES] == list(ARCHITECTURES)
    assert [(one.uniform, one.variable) for one in FIGURES] == [
        (2.2, 1.1),
        (2.0, None),
        (5.9, None),
        (15.0, 3.5),
        (None, 10.7),
        (None, None),
    ]


def test_the_conditions_of_the_published_figures_are_listed() -> None:
    told = " ".join(one.note for one in FIGURES)
    for said in ("1.4 s to 11.3 s", "452 ms -> 171 ms", "9.0 -> 16.4"):
        assert said in told
