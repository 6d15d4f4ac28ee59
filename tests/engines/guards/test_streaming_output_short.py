"""Tests of the fast path of the guards, which gives the same result as the full check."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.engines.guards.complete_output import Guard
from gateway.engines.guards.streaming_output import OutputGuard
from gateway.errors import Rejected
from gateway.job import Job
from tests.engines.guards.outputs import watch

PIECES = (
    *(" der", " Tag", " war", "schön", " gut", "en", " sehr", " a", "b", "s", " 12", ",", ".", " "),
    *(
        "'s",
        "\n",
        "\u4e2d",
        "\u00e4",
        " fi",
        "ck",
        " Schei",
        "\u00df",
        "fuck",
        " Arsch",
        '"',
        "</think>",
    ),
    *(
        " Tag,",
        " war.",
        " sehr,",
        " 1,",
        "000",
        " gut!",
        "!",
        "?",
        " Arsch.",
        "Arsch,",
        " fick",
        " fick!",
    ),
    *(
        " Schei\u00df",
        "\u00dfe,",
        ":",
        " \u4e2d,",
        " a.b.",
        " \u0130stanbul,",
        "-",
        " wohl-",
        " _a,",
    ),
)


class Plodder(OutputGuard):
    """A guard without the fast path."""

    @property
    def _fast_path(self) -> bool:
        return False

    @_fast_path.setter
    def _fast_path(self, easy: bool) -> None:
        pass


def fate(watch: OutputGuard, pieces: Iterable[str]) -> tuple[list[str], object]:
    """Return the text shown for each piece, and the state at the end."""
    shown: list[str] = []
    try:
        shown.extend(watch.accept(piece) for piece in pieces)
        shown.append(watch.complete())
    except Rejected as fault:
        return shown, fault.guard
    return shown, (watch.text, watch.flags, tuple(watch.hits), watch.done)


@given(
    st.lists(st.sampled_from(PIECES), max_size=40),
    st.sampled_from(
        ["The day was good, 12 times.", "a\nb", "What the fuck?", "A very very good day"]
    ),
    st.booleans(),
    st.sampled_from(["", "Der ", "Der Ta", "Fi"]),
    st.sampled_from(["de", "fi", "zh"]),
)
def test_the_fast_path_gives_the_same_result_as_the_full_check(
    pieces: list[str], text: str, partial: bool, prefix: str, target: str
) -> None:
    job = Job(id="1", text=text, source="en", target=target, partial=partial, prefix=prefix)
    assert fate(OutputGuard(job), pieces) == fate(Plodder(job), pieces)


def test_whole_sentences_take_the_fast_path_at_every_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = "Wir sehen uns die Zahlen noch einmal an, und legen dann, gemeinsam: alles fest.".split()
    text = "We will look at the figures again and then, together, decide it all."
    follower = watch("en", "de", text)
    looks = []
    look = follower._accept_any

    def counted(text: str) -> str:
        looks.append(text)
        return look(text)

    monkeypatch.setattr(follower, "_accept_any", counted)
    shown, _ = fate(follower, [good[0], *(f" {word}" for word in good[1:])])
    assert "".join(shown) == " ".join(good)
    assert looks == [good[0]]


@pytest.mark.parametrize("last", [" beisammen", " beisammen."])
def test_the_fast_path_rejects_an_output_that_is_far_too_long(last: str) -> None:
    follower = watch("en", "de", "Hi.")
    for piece in ("Guten", " Morgen", " liebe", " Freunde"):
        assert follower.accept(piece) == piece
    with pytest.raises(Rejected) as caught:
        follower.accept(last)
    assert caught.value.guard == Guard.LENGTH
