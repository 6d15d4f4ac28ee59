"""Captions as a reader sees them, reduced from events."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.client.state.captions import Captions
from gateway.core.delivery.waiting_frames import merge
from gateway.core.streaming.stability import StabilityRules
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.job import Chunk, Job
from gateway.protocol.messages import (
    DURABLE,
    Cancelled,
    Delta,
    Edited,
    Failed,
    Final,
    Line,
    Retracted,
    ServerMessage,
    Snapshot,
    Source,
    Synced,
    Timing,
)
from gateway.protocol.notices import Presence, Tick
from tests.support.fake import welcome

MS = Timing(queue=0, first=0, total=0)


def delta(
    add: str = "", *, n: int, draft: str | None = None, rev: int = 1, reset: bool = False
) -> Delta:
    return Delta(id="a", rev=rev, lang="de", add=add, draft=draft, reset=reset, n=n)


def final(text: str, id: str = "a") -> Final:
    return Final(seq=1, id=id, rev=1, ord=1, lang="de", text=text, by="mt", ms=MS)


def source(text: str, id: str = "a") -> Source:
    return Source(seq=1, id=id, rev=1, ord=1, lang="en", text=text, speaker="Ann")


def edited(text: str, lang: str = "de") -> Edited:
    return Edited(seq=2, id="a", rev=1, ord=1, lang=lang, text=text, by="human")


def folded(*events: ServerMessage) -> Captions:
    captions = Captions()
    for event in events:
        captions.fold(event)
    return captions


def test_a_caption_is_its_stable_text_and_its_draft() -> None:
    captions = folded(delta("Guten", n=5), delta(" Morgen", n=12, draft=" allerseits"))
    caption = captions["a", "de"]
    assert (caption.stable, caption.draft, caption.text) == (
        "Guten Morgen",
        " allerseits",
        "Guten Morgen allerseits",
    )
    assert captions.growing() == [(("a", "de"), caption)]
    assert captions["a", "fr"].text == ""


def test_a_reset_empties_the_stable_text_first() -> None:
    assert folded(delta("Falsch", n=6), delta("Gut", n=3, reset=True))["a", "de"].stable == "Gut"


def test_a_final_replaces_all_text_and_later_deltas_are_ignored() -> None:
    captions = folded(delta("Gu", n=2, draft="t?"), final("Guten Tag"), delta("x", n=1, rev=9))
    assert captions["a", "de"].text == "Guten Tag"
    assert captions["a", "de"].state == "final"
    assert captions.growing() == []


def test_a_delta_of_an_older_revision_is_ignored() -> None:
    assert folded(delta(n=0, draft="new", rev=2), delta(n=0, draft="old"))["a", "de"].text == "new"


def test_a_caption_joined_in_the_middle_has_a_gap_until_its_final() -> None:
    captions = folded(delta(" Morgen", n=12))
    assert captions["a", "de"].gap
    captions.fold(final("Guten Morgen"))
    assert not captions["a", "de"].gap


def test_a_failed_caption_has_no_text() -> None:
    failed = Failed(seq=1, id="a", rev=1, ord=1, lang="de", code="timeout", retry=True)
    caption = folded(delta("Gu", n=2), failed)["a", "de"]
    assert (caption.state, caption.text) == ("failed", "")


@pytest.mark.parametrize(
    ("lang", "states"), [("de", ("cancelled", "open")), (None, ("cancelled", "cancelled"))]
)
def test_a_cancel_ends_one_language_or_all_that_had_not_ended(
    lang: str | None, states: tuple[str, str]
) -> None:
    captions = folded(
        final("Fertig", id="other"),
        delta("Gu", n=2),
        msgspec.structs.replace(delta("Bo", n=2), lang="fr"),
        Cancelled(seq=2, id="a", rev=1, lang=lang, was="running"),
    )
    assert (captions["a", "de"].state, captions["a", "fr"].state) == states
    assert captions["other", "de"].text == "Fertig"


def test_a_snapshot_replaces_the_state_of_an_utterance() -> None:
    lines = (
        Line(lang="de", state="running", text="Gu", draft="ten"),
        Line(lang="fr", state="final", text="Bonjour", by="mt"),
        Line(lang="it", state="failed", text="Buo"),
    )
    snapshot = Snapshot(id="a", rev=1, ord=1, lang="en", text="hi", final=True, lines=lines)
    captions = folded(snapshot, Tick(seq=1))
    assert [captions["a", lang].text for lang in ("de", "fr", "it")] == ["Guten", "Bonjour", ""]
    assert [captions["a", lang].state for lang in ("de", "fr", "it")] == ["open", "final", "failed"]


def test_a_corrected_caption_has_its_new_text() -> None:
    captions = folded(source("hi"), final("Guten Tag"), edited("Hallo"), delta("x", n=1, rev=9))
    assert (captions["a", "de"].text, captions["a", "de"].state) == ("Hallo", "final")
    assert captions.originals["a"].text == "hi"


@pytest.mark.parametrize(
    "before",
    [
        (),
        (delta("Gu", n=2),),
        (Failed(seq=1, id="a", rev=1, ord=1, lang="de", code="timeout", retry=True),),
        (Cancelled(seq=1, id="a", rev=1, lang="de", was="running"),),
    ],
    ids=["who came late", "growing", "failed", "cancelled"],
)
def test_a_correction_replaces_any_earlier_state(
    before: tuple[ServerMessage, ...],
) -> None:
    caption = folded(*before, edited("Hallo"))["a", "de"]
    assert (caption.text, caption.state) == ("Hallo", "final")


def test_a_corrected_original_becomes_a_caption_only_if_it_was_one() -> None:
    captions = folded(source("hi"), final("Hallo"), edited("hey", "en"))
    assert captions.originals["a"] == source("hey")
    assert captions["a", "de"].text == "Hallo"
    assert captions["a", "en"].state == "open", "nobody reads it here"
    same = msgspec.structs.replace(final("hi"), lang="en", by="same")
    captions = folded(source("hi"), same, edited("hey", "en"))
    assert captions["a", "en"].text == "hey"


def test_a_withdrawn_utterance_is_removed_in_all_languages() -> None:
    captions = folded(
        source("hi"),
        source("bye", "b"),
        final("Hallo"),
        msgspec.structs.replace(final("Salut"), lang="fr"),
        final("Tschüss", id="b"),
        Retracted(seq=3, id="a", ord=1),
    )
    assert [captions["a", lang].text for lang in ("de", "fr")] == ["", ""]
    assert captions["b", "de"].text == "Tschüss"
    assert list(captions.originals) == ["b"]


def test_each_part_of_a_long_utterance_is_an_utterance() -> None:
    captions = folded(final("Erst dies,"), final("dann das.", id="a.2"))
    assert [captions[id, "de"].text for id in ("a", "a.2")] == ["Erst dies,", "dann das."]
    captions.fold(Retracted(seq=3, id="a.2", ord=2))
    assert [captions[id, "de"].text for id in ("a", "a.2")] == ["Erst dies,", ""]


def test_presence_changes_no_caption() -> None:
    captions = folded(delta("Gu", n=2), Presence(readers={"de": 1}, members=1))
    assert captions["a", "de"].text == "Gu"


def test_only_the_newest_originals_are_kept() -> None:
    captions = Captions(kept=2)
    for id in ("a", "b", "c"):
        captions.fold(source(id, id))
    assert list(captions.originals) == ["b", "c"]


def test_only_the_newest_ended_captions_are_kept() -> None:
    captions = Captions(kept=2)
    captions.fold(delta("Gu", n=2))
    for id in ("b", "c", "d"):
        captions.fold(final(id, id=id))
    kept = [captions[id, "de"].text for id in ("a", "b", "c", "d")]
    assert kept == ["Gu", "", "", "d"], "what still grows is never forgotten"


chunks = st.lists(
    st.builds(Chunk, st.text("ab ", max_size=3), reset=st.sampled_from([False, False, True])),
    max_size=4,
)
RULES = StabilityRules(hold=0, mask=1, agree=2)


@given(partials=st.lists(chunks, max_size=4), last=chunks, steps=st.integers(0, 3))
def test_ignoring_every_ephemeral_event_leads_to_the_same_text(
    partials: list[list[Chunk]], last: list[Chunk], steps: int
) -> None:
    """Check rule 2 of the protocol on events of a gateway, and compare the state at every step."""
    caption = Caption("a", "de", RULES)
    shown = Captions()
    events: list[ServerMessage] = []

    def show(event: ServerMessage | None) -> None:
        if event is not None:
            events.append(event)
            shown.fold(event)
        assert shown["a", "de"].stable == caption.stable
        assert shown["a", "de"].draft == caption.draft
        assert not shown["a", "de"].gap

    for rev, output in enumerate([*partials, last], 1):
        partial = rev <= len(partials)
        base = caption.committed if partial else ""
        job = Job(id=f"job{rev}", text="", source="en", target="de", partial=partial, prefix=base)
        caption.queue(job, Utterance("a", 1, "s", rev=rev, text_number=rev), 0)
        caption.start(0)
        for chunk in output:
            show(caption.add_output(chunk, 0))
        if partial:
            show(caption.finish_partial())
    if caption.broken:  # what was committed is kept: it is made again from there
        caption.withdraw()
        caption.requeue(replace(job, id="again", prefix=caption.committed))
        caption.start(0)
        for chunk in last:
            show(caption.add_output(chunk, 0))
    text = caption.text
    caption.finish(text, "mt", 0)
    show(final(text))

    assert folded(*(e for e in events if isinstance(e, DURABLE)))["a", "de"].text == text
    merged: list[ServerMessage] = []
    for event in events:  # a slow reader gets several deltas as one
        newest = merged[-1] if merged else None
        if steps and isinstance(newest, Delta) and isinstance(event, Delta):
            merged[-1] = merge(newest, event)
            steps -= 1
        else:
            merged.append(event)
    assert folded(*merged)["a", "de"] == shown["a", "de"]


# --- another connection -------------------------------------------------------------------------


def test_captions_continue_after_a_connection_that_was_resumed() -> None:
    synced = Synced(epoch="e", seq=1, ok=True, replayed=0)
    captions = folded(delta("Guten", n=5), welcome(ok=True), synced, delta(" Tag", n=9))
    assert captions["a", "de"].text == "Guten Tag" and not captions["a", "de"].gap


@pytest.mark.parametrize(
    "lost",
    [welcome(), welcome(ok=False), Synced(epoch="e", seq=1, ok=False, replayed=0)],
)
def test_unfinished_captions_are_void_after_missed_events(lost: ServerMessage) -> None:
    before = (final("Ja.", "b"), delta("Guten", draft=" Mo", n=5))
    captions = folded(*before, lost)
    assert captions["b", "de"].state == "final"
    assert (captions["a", "de"].state, captions["a", "de"].text) == ("void", "Guten")
    assert captions.growing() == []
    captions.fold(delta("Hallo", n=5))
    assert (captions["a", "de"].state, captions["a", "de"].text) == ("open", "Hallo")
    assert folded(*before, lost, final("Tag."))["a", "de"].text == "Tag."


def test_captions_that_have_not_ended_are_not_forgotten() -> None:
    captions = Captions(kept=1)
    for id in ("a", "b"):
        captions.fold(Delta(id=id, rev=1, lang="de", add=id, n=1))
    assert [key for key, _ in captions.growing()] == [("a", "de"), ("b", "de")]
