"""The history of a reader's screen, from the events of its socket."""

from __future__ import annotations

from caption_tools.replay.analysis.screen import ScreenRecorder
from caption_tools.replay.meeting.script import ShownCaption
from gateway.protocol.messages import (
    Cancelled,
    Delta,
    Failed,
    Final,
    Line,
    ServerMessage,
    Snapshot,
    Source,
    Timing,
)
from gateway.protocol.notices import Presence

MS = Timing(queue=0, first=0, total=0)


def final(text: str, id: str = "a", lang: str = "de") -> Final:
    return Final(seq=1, id=id, rev=1, ord=1, lang=lang, text=text, by="mt", ms=MS)


def source(id: str = "a") -> Source:
    return Source(seq=1, id=id, rev=1, ord=1, lang="en", text="Hi.")


def watched(*events: ServerMessage, langs: tuple[str, ...] = ("de",)) -> ScreenRecorder:
    """Return a recorder that got an event each second."""
    watch = ScreenRecorder(langs)
    for at, event in enumerate(events, 1):
        watch.note(event, float(at))
    return watch


def test_a_history_has_every_change_of_the_text() -> None:
    watch = watched(
        Delta(id="a", rev=1, lang="de", draft="Gut", n=0),
        Delta(id="a", rev=2, lang="de", add="Guten", draft=" Tag", n=5),
        Delta(id="a", rev=3, lang="de", draft=" Tag", n=5),
        Presence(readers={}, members=1),
        final("Guten Abend."),
        final("Guten Abend."),
    )
    assert watch.history("a", "de") == (
        ShownCaption(1, "", "Gut"),
        ShownCaption(2, "Guten", " Tag"),
        ShownCaption(5, "Guten Abend.", "", True),
    )
    assert watch.history("a", "fr") == watch.history("b", "de") == ()


def test_an_ended_caption_does_not_change() -> None:
    watch = watched(final("Eins."), Delta(id="a", rev=2, lang="de", draft="Zwei", n=0))
    assert watch.history("a", "de") == (ShownCaption(1, "Eins.", "", True),)


def test_a_failure_is_an_end_without_text() -> None:
    failed = Failed(seq=1, id="a", rev=1, ord=1, lang="de", code="timeout", retry=True)
    assert watched(failed).history("a", "de") == (ShownCaption(1, "", "", True),)


def test_a_cancel_ends_a_caption_in_all_languages_or_in_one() -> None:
    ended = (ShownCaption(1, "", "", True),)
    both = watched(Cancelled(seq=1, id="a", rev=1, was="running"), langs=("de", "fr"))
    assert both.history("a", "de") == both.history("a", "fr") == ended
    one = watched(Cancelled(seq=1, id="a", rev=1, lang="fr", was="queued"), langs=("de", "fr"))
    assert (one.history("a", "de"), one.history("a", "fr")) == ((), ended)


def test_a_cancel_that_ended_nothing_is_no_end() -> None:
    assert watched(Cancelled(id="a", rev=1, was="done")).history("a", "de") == ()


def test_the_segments_of_an_utterance_are_found_in_their_order() -> None:
    watch = watched(source("a.10"), source("a"), source("ab"), final("Zwei.", "a.2"), source("a.x"))
    assert watch.parts("a") == ["a", "a.2", "a.10"]
    assert watch.parts("c") == []


def test_a_correction_is_one_more_state() -> None:
    watch = watched(final("Eins."))
    watch.correct("a", "de", "Eins!", 7.0)
    assert watch.history("a", "de")[-1] == ShownCaption(7.0, "Eins!", "", True)


def test_a_forgotten_utterance_has_no_history() -> None:
    watch = watched(source(), final("Eins."))
    watch.forget("a")
    watch.forget("a")
    assert (watch.sources, watch.history("a", "de"), watch.parts("a")) == ({}, (), [])


def test_a_snapshot_of_a_growing_caption_is_part_of_its_history() -> None:
    lines = (
        Line(lang="de", state="running", text="Guten", draft=" Tag"),
        Line(lang="fr", state="running", text="Bon"),
        Line(lang="es", state="final", text="Hola."),
    )
    shot = Snapshot(id="a", rev=1, ord=1, lang="en", text="hi", final=False, lines=lines)
    watch = watched(shot, langs=("de", "es"))
    assert watch.history("a", "de") == (ShownCaption(1.0, "Guten", " Tag"),)
    assert watch.history("a", "fr") == watch.history("a", "es") == ()
