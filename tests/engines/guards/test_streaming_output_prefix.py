"""Tests of the guards for outputs that continue a forced prefix."""

from __future__ import annotations

import pytest

from gateway.engines.guards.complete_output import Guard
from gateway.errors import Rejected
from tests.engines.guards.outputs import ORDERS, STRIPPED, TALK, pieces, read, watch


def test_a_continuation_has_its_own_space() -> None:
    follower = watch("en", "de", "good morning everybody", prefix="Guten")
    assert read(follower, [" Mor", "gen", " zusammen "]) == " Morgen zusammen"


@pytest.mark.parametrize("cut", [1, 3, 1000])
@pytest.mark.parametrize(
    ("prefix", "output", "rest"),
    [
        ("Guten Morgen", "Guten Morgen zusammen", " zusammen"),
        ("Guten Morgen ", " Guten Morgen zusammen", " zusammen"),
        ("Guten Morgen, liebe", "Morgen, liebe Leute", " Leute"),
        ("Guten Morgen", " Morgenstund", " Morgenstund"),
        ("Guten Morgen", "Morgen", ""),
        ("Guten", "Guten Morgen", " Morgen"),
        ("Guten", "\n\nGuten Morgen", " Morgen"),
        ("Das ist sehr", " sehr gut", " sehr gut"),
        ("Et alors, nous", " nous retrouvons", " nous retrouvons"),
        ("Das ist sehr ", "sehr gut", "sehr gut"),
        ("Das ist sehr gut", " sehr gut gemacht", " gemacht"),
        ("Guten Morgen", " Morgens", " Morgens"),
        ("Guten Morgen", "Morgens", "Morgens"),
        ("Ich bin da", " da und dort", " da und dort"),
        ("おはようございます", "ございますみなさん", "みなさん"),
        ("おはようございます", "。みなさん", "。みなさん"),
    ],
)
def test_a_restarted_prefix_is_shown_once(prefix: str, output: str, rest: str, cut: int) -> None:
    target = "ja" if prefix[0] > "z" else "de"
    follower = watch("en", target, "good morning everybody", prefix=prefix)
    assert read(follower, pieces(output, cut)) == rest
    assert (Guard.RESTART in follower.hits) == (len(rest) < len(output.strip()))


@pytest.mark.parametrize(
    ("target", "prefix", "rest"),
    [("de", "Tschüss tschüss tschüss", " tschüss tschüss"), ("zh", "再见再见再见", "再见再见")],
)
def test_a_repetition_in_the_source_is_no_restart(target: str, prefix: str, rest: str) -> None:
    follower = watch("en", target, "Bye bye bye bye bye", prefix=prefix)
    assert read(follower, [rest]) == rest
    follower = watch("en", target, "Bye everybody and all", prefix=prefix)
    assert read(follower, [rest]) == ""
    assert follower.hits == [Guard.RESTART]


def test_thinking_before_a_continuation_does_not_take_its_space() -> None:
    follower = watch("en", "de", "good morning everybody", prefix="Guten Morgen")
    assert read(follower, ["<think>\n\n</think>\n\nzusammen"]) == " zusammen"
    assert follower.hits == [Guard.THINKING]


@pytest.mark.parametrize("cut", [1, 3, 1000])
@pytest.mark.parametrize(
    ("guard", "target", "output"),
    [row[:3] for row in STRIPPED if row[0] is not Guard.THINKING],
)
def test_quotes_and_preambles_are_not_stripped_from_a_continuation(
    guard: Guard, target: str, output: str, cut: int
) -> None:
    prefix, rest = ("本文", output) if target in ("ja", "zh") else ("Hallo", f" {output}")
    source = "hello and good morning to all of you who are here with us today"
    follower = watch("en", target, source, prefix=prefix)
    said = rest.replace("\n", "")
    assert read(follower, pieces(said, cut)) == said
    assert follower.hits == []


@pytest.mark.parametrize("cut", [1, 3, 1000], ids=["by character", "by three", "whole"])
@pytest.mark.parametrize(("source", "target", "text", "good"), ORDERS + TALK)
def test_a_good_translation_passes_unchanged_after_any_forced_prefix_of_it(
    source: str, target: str, text: str, good: str, cut: int
) -> None:
    for at in range(1, len(good) + 1):
        prefix, rest = good[:at], good[at:]
        if rest.lstrip() != rest and prefix.rstrip() != prefix:
            continue
        follower = watch(source, target, text, prefix=prefix)
        assert read(follower, pieces(rest, cut)) == rest
        assert follower.hits == []


@pytest.mark.parametrize("partial", [False, True])
def test_a_forced_prefix_may_be_the_whole_translation(partial: bool) -> None:
    follower = watch("en", "de", "Good morning!", prefix="Guten Morgen!", partial=partial)
    assert read(follower, []) == ""
    follower = watch("en", "de", "Good morning!", prefix="Guten Morgen!", partial=partial)
    assert read(follower, [" ", "\n"]) == ""


@pytest.mark.parametrize(
    ("guard", "target", "text", "prefix", "output"),
    [
        (Guard.LENGTH, "de", "good morning", "Guten Morgen, " * 4, " meine Damen und Herren"),
        (Guard.LOOP, "de", "very very good", "sehr sehr sehr", " sehr sehr sehr sehr gut"),
        (Guard.LOOP, "ja", "very very good", "とてもとてもとても", "とてもとても"),
        (Guard.SCRIPT, "de", "good morning to all", "Всем доброго", " утра, Anna"),
        (Guard.COPY, "de", "we can all hear you now", "we can all hear", " you now"),
    ],
)
def test_a_continuation_is_judged_with_its_prefix(
    guard: Guard, target: str, text: str, prefix: str, output: str
) -> None:
    with pytest.raises(Rejected) as caught:
        read(watch("en", target, text, prefix=prefix), [output])
    assert caught.value.guard is guard
    alone = watch("en", target, text)
    assert read(alone, [output.strip()]) == output.strip()


def test_a_short_continuation_is_judged_by_its_length_with_the_prefix() -> None:
    text = "This is what we have been talking about for a long time."
    with pytest.raises(Rejected) as caught:
        read(watch("en", "de", text), ["Zeit."])
    assert caught.value.guard is Guard.SHORT
    prefix = "Davon reden wir schon seit langer"
    assert read(watch("en", "de", text, prefix=prefix), [" Zeit."]) == " Zeit."


def test_a_loop_in_the_prefix_alone_is_not_rejected() -> None:
    prefix = "sehr " * 8 + "gut"
    assert read(watch("en", "de", "Let us go there.", prefix=prefix), [" so"]) == " so"


def test_lines_of_the_prefix_count() -> None:
    follower = watch("en", "de", "one\ntwo", prefix="Eins\n")
    assert read(follower, ["Zwei", "\nDrei"]) == "Zwei"
