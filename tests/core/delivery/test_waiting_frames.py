"""Deltas that merge, and the memory that waiting frames take."""

from __future__ import annotations

from msgspec.structs import replace

from gateway.core.delivery.waiting_frames import merge, weight
from tests.core.delivery.test_outbox import delta


def test_the_newest_draft_is_kept() -> None:
    assert merge(delta(draft="x"), delta(draft="y")).draft == "y"
    assert merge(delta(draft="x"), delta("a")).draft == "x"
    assert merge(delta(draft="x"), delta(draft="")).draft == ""


def test_a_reset_voids_the_text_before_it_and_is_not_lost() -> None:
    assert merge(delta("old"), delta("new", reset=True)) == delta("new", reset=True)
    assert merge(delta("a", reset=True), delta("b", 2)) == delta("ab", reset=True)


def test_the_speaker_of_the_first_delta_is_kept() -> None:
    first = replace(delta(draft="x"), speaker="Ann")
    assert merge(first, delta("a")).speaker == "Ann"
    assert merge(delta("a"), replace(delta("b", reset=True), speaker="Ben")).speaker == "Ben"


def test_the_name_of_a_speaker_counts_as_memory() -> None:
    unnamed = delta("a")
    assert weight(None, replace(unnamed, speaker="山" * 100)) >= weight(None, unnamed) + 200
