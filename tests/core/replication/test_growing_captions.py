"""The unfinished captions of a room, as a replica has seen them grow."""

from __future__ import annotations

from msgspec.structs import replace

from gateway.core.replication.growing_captions import GrowingCaptions
from gateway.protocol.messages import Cancelled, Delta, Edited, Failed, Retracted, Source


def delta(add: str, n: int, draft: str | None = None, *, reset: bool = False) -> Delta:
    return Delta(id="x", rev=1, lang="de", add=add, draft=draft, reset=reset, n=n)


def test_the_first_delta_takes_back_what_a_reader_may_have_seen_before() -> None:
    captions = GrowingCaptions()
    assert captions.grow(delta("Gu", 2)).reset
    assert not captions.grow(delta("t", 3)).reset
    assert captions.of("de") == [delta("Gut", 3, reset=True)]
    assert captions.of("fr") == []


def test_a_reader_that_begins_late_learns_the_speaker() -> None:
    captions = GrowingCaptions()
    captions.grow(replace(delta("", 0, "Gu"), speaker="Ann"))
    captions.grow(delta("Gut", 3))
    assert captions.of("de")[0].speaker == "Ann"


def test_a_draft_stays_until_another_one_replaces_it() -> None:
    captions = GrowingCaptions()
    captions.grow(delta("", 0, "Gu"))
    captions.grow(delta("G", 1))
    assert captions.of("de")[0].draft == "Gu"
    captions.grow(delta("", 1, ""))
    assert captions.of("de")[0].draft == ""
    captions.grow(delta("T", 1, reset=True))
    assert captions.of("de") == [delta("T", 1, reset=True)]


def test_captions_end_by_durable_events() -> None:
    ends = (
        Failed(seq=1, id="x", rev=1, ord=1, lang="de", code="busy", retry=True),
        Edited(seq=1, id="x", rev=1, ord=1, lang="de", text="Gut", by="human"),
        Cancelled(seq=1, id="x", rev=1, lang="de", was="none"),
        Cancelled(seq=1, id="x", rev=1, was="none"),
        Retracted(seq=1, id="x", ord=1),
    )
    for end in ends:
        captions = GrowingCaptions()
        captions.grow(delta("Gu", 2))
        captions.grow(Delta(id="y", rev=1, lang="de", add="Ja", n=2))
        captions.forget_ended(Source(seq=1, id="x", rev=1, ord=1, lang="en", text="good"))
        assert len(captions.of("de")) == 2
        captions.forget_ended(end)
        assert [one.id for one in captions.of("de")] == ["y"], end


def test_captions_that_another_authority_does_not_make_are_emptied() -> None:
    captions = GrowingCaptions()
    captions.grow(delta("Gu", 2))
    other = Delta(id="y", rev=1, lang="de", add="Ja", reset=True, n=2)
    assert captions.replace([other]) == [delta("", 0, "", reset=True), other]
    assert captions.of("de") == [other]
