"""Frames wait in order, deltas merge, and a reader that is too slow is let go."""

from __future__ import annotations

import tracemalloc
from sys import getsizeof

import pytest

from gateway import framing
from gateway.codec import Codec, Envelope
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.messages import (
    Ack,
    Cancelled,
    Delta,
    Failed,
    Final,
    Lag,
    Line,
    Presence,
    Retracted,
    ServerMessage,
    Snapshot,
    Tick,
    Timing,
)
from gateway.outbox import ENTRY_BYTES, HOLE_BYTES, LAG_S, LATE_BYTES, Outbox, Tally, merge
from tests.helpers import NOW, names, read


def outbox(codec: Codec = Codec.JSON, **limits: float) -> Outbox:
    return Outbox(codec, Limits(**limits))  # type: ignore[arg-type]


def delta(
    add: str = "",
    n: int | None = None,
    *,
    id: str = "u1",
    lang: str = "de",
    draft: str | None = None,
    reset: bool = False,
) -> Delta:
    length = len(add) if n is None else n
    return Delta(id=id, rev=1, lang=lang, add=add, draft=draft, reset=reset, n=length)


def final(text: str = "", *, id: str = "u1", lang: str = "de") -> Final:
    timing = Timing(queue=0, first=0, total=0)
    return Final(seq=1, id=id, rev=1, ord=1, lang=lang, text=text, by="mt", ms=timing)


def cancelled(lang: str | None = None) -> Cancelled:
    return Cancelled(seq=1, id="u1", rev=1, lang=lang, was="running")


def failed() -> Failed:
    return Failed(seq=1, id="u1", rev=1, ord=1, lang="de", code="timeout", retry=True)


def snapshot(text: str, id: str = "u1") -> Snapshot:
    line = Line(lang="de", state="running", text=text)
    return Snapshot(id=id, rev=1, ord=1, lang="en", text="a", final=True, lines=(line,))


def push(box: Outbox, *messages: ServerMessage, now: float = NOW) -> None:
    for message in messages:
        box.push(Envelope(message), now)


def taken(box: Outbox) -> list[ServerMessage]:
    return [read(frame) for frame in box.take()]


def test_frames_leave_in_the_order_in_which_they_came() -> None:
    box = outbox()
    messages = [Ack(id="u1", rev=1, ord=1), delta("a"), final("a"), Tick(seq=1)]
    push(box, *messages)
    assert taken(box) == messages
    assert len(box) == box.bytes == 0
    assert box.take() == []


def test_deltas_of_one_caption_merge_while_they_wait() -> None:
    box = outbox()
    push(box, delta("a"), delta("b", 2), delta("c", 3))
    assert taken(box) == [delta("abc")]
    assert box.merged == 2


def test_deltas_of_other_captions_do_not_merge() -> None:
    box = outbox()
    messages = [delta("a"), delta("b", lang="fr"), delta("c", id="u2")]
    push(box, *messages)
    assert taken(box) == messages


def test_a_merged_delta_stands_where_the_newest_stood() -> None:
    box = outbox()
    push(box, delta("a"), Ack(id="u1", rev=2, ord=1), delta("b", 2))
    assert taken(box) == [Ack(id="u1", rev=2, ord=1), delta("ab")]


def test_what_was_taken_is_not_merged_with() -> None:
    box = outbox()
    push(box, delta("a"))
    box.take()
    push(box, delta("b", 2))
    assert taken(box) == [delta("b", 2)]


def test_the_newest_draft_is_kept() -> None:
    assert merge(delta(draft="x"), delta(draft="y")).draft == "y"
    assert merge(delta(draft="x"), delta("a")).draft == "x"
    assert merge(delta(draft="x"), delta(draft="")).draft == ""


def test_a_reset_voids_the_text_before_it_and_is_not_lost() -> None:
    assert merge(delta("old"), delta("new", reset=True)) == delta("new", reset=True)
    assert merge(delta("a", reset=True), delta("b", 2)) == delta("ab", reset=True)


def test_nothing_merges_across_a_snapshot() -> None:
    box = outbox()
    messages = [delta("a"), snapshot("a"), delta("b", 2)]
    push(box, *messages)
    assert taken(box) == messages


def test_a_snapshot_of_another_utterance_is_no_obstacle() -> None:
    box = outbox()
    push(box, delta("a"), snapshot("x", "u2"), delta("b", 2))
    assert names(taken(box)) == ["snapshot", "delta"]


def late(box: Outbox) -> None:
    """Let the reader be so late that it is spared what is void."""
    push(box, final("x" * LATE_BYTES, id="before"))


@pytest.mark.parametrize("end", [final("ab"), failed(), cancelled("de"), cancelled()])
def test_an_end_drops_the_deltas_it_voids_where_the_reader_is_late(end: ServerMessage) -> None:
    box = outbox()
    late(box)
    push(box, delta("a"), delta("a", lang="fr", id="u2"), end)
    assert names(taken(box)) == ["final", "delta", str(end.__struct_config__.tag)]
    assert box.merged == 1


def test_a_prompt_reader_sees_the_deltas_before_an_end() -> None:
    box = outbox()
    push(box, delta("a"), final("ab"))
    assert names(taken(box)) == ["delta", "final"]


def test_an_end_in_one_language_leaves_the_others_alone() -> None:
    box = outbox()
    late(box)
    push(box, delta("a"), delta("b", lang="fr"), final("a"))
    assert [event.lang for event in taken(box)[1:] if isinstance(event, Delta)] == ["fr"]


def test_a_cancel_of_the_whole_utterance_voids_all_its_languages() -> None:
    box = outbox()
    late(box)
    push(box, delta("a"), delta("b", lang="fr"), cancelled())
    assert names(taken(box)) == ["final", "cancelled"]


def test_the_writer_is_woken_once_when_there_is_something_after_nothing() -> None:
    box = outbox()
    woken: list[int] = []
    box.wake = lambda: woken.append(len(box))
    push(box, delta("a"), delta("b", 2), Tick(seq=1))
    assert woken == [1]
    box.take()
    push(box, Tick(seq=1))
    assert woken == [1, 1]


# --- the bound ----------------------------------------------------------------------------------

BOUND = 64_000


def fill(box: Outbox, share: float) -> None:
    """Let so much of the bound wait, all of it decided."""
    while box.bytes <= share * BOUND:
        push(box, final("x" * 200, id=f"f{len(box)}"))


def test_from_a_quarter_of_the_bound_on_drafts_are_dropped() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("a", draft="b"), delta("a", lang="fr"))
    fill(box, 1 / 4)
    push(box, delta("c", 2, draft="d"), delta("e", id="u2"), delta("g", id="u3", draft="h"))
    deltas = [event for event in taken(box) if isinstance(event, Delta)]
    assert deltas == [
        delta("a", lang="fr"),
        delta("ac", draft=""),
        delta("e", id="u2"),
        delta("g", id="u3", draft=""),
    ]


def test_a_draft_that_is_dropped_takes_an_older_one_off_the_screen() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("a", draft="b"))
    assert taken(box) == [delta("a", draft="b")]
    fill(box, 1 / 4)
    push(box, delta("b", 2, draft="c"))
    assert taken(box)[-1] == delta("b", 2, draft="")


def test_from_half_of_the_bound_on_deltas_are_dropped_until_the_caption_ends() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("a"), delta("a", lang="fr"))
    fill(box, 1 / 2)
    push(box, delta("b", id="u2"))
    assert "delta" not in names(taken(box))
    # It has caught up: but what went before of these was never seen.
    push(box, delta("c", 2), delta("c", 2, id="u2"), delta("d", id="u3"))
    assert taken(box) == [delta("d", id="u3")]
    push(box, final("ac"), delta("e", 2, lang="fr"), cancelled(), delta("f", 1, lang="fr"))
    assert names(taken(box)) == ["final", "cancelled", "delta"]


def test_a_snapshot_or_a_reset_heals_the_hole_in_its_language() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("a"), delta("a", lang="fr"), delta("a", id="u2"))
    fill(box, 1 / 2)
    taken(box)
    push(box, snapshot("ab"), delta("c", 3), delta("c", 3, lang="fr"))
    push(box, delta("z", 2, id="u2"), delta("abc", id="u2", reset=True))
    assert taken(box) == [snapshot("ab"), delta("c", 3), delta("abc", id="u2", reset=True)]


def test_what_was_taken_back_is_no_hole_any_more() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("a"))
    fill(box, 1 / 2)
    taken(box)
    push(box, Retracted(seq=1, id="u1", ord=1), delta("n"))
    assert names(taken(box)) == ["retracted", "delta"]


def test_a_reader_that_lags_is_told_so_ahead_of_what_follows_once_a_second() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("a"))
    fill(box, 1 / 2)
    push(box, delta("b", 2), now=NOW + 2.5)
    assert taken(box)[0] == Lag(dropped=2, ms=2500)
    push(box, delta("c", 3), Tick(seq=1), now=NOW + 2.6)
    assert taken(box) == [Tick(seq=1)]
    push(box, delta("d", 4), Tick(seq=2), now=NOW + 2.5 + LAG_S)
    assert taken(box) == [Lag(dropped=2, ms=0), Tick(seq=2)]
    push(box, Tick(seq=3), now=NOW + 20)
    assert taken(box) == [Tick(seq=3)]


def test_a_person_who_lags_is_shown_nothing_of_it() -> None:
    box = outbox(Codec.PLAIN)
    push(box, final("Hallo"))
    box._dropped = 1
    assert box.take() == ["[de] Hallo"]


def test_a_lag_counts_among_the_frames_and_bytes_sent() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("a"))
    fill(box, 1 / 2)
    frames = box.take()
    assert names([read(frames[0])]) == ["lag"]
    assert (box.frames, box.sent) == (len(frames), sum(map(len, frames)))


def test_of_states_only_the_newest_waits() -> None:
    box = outbox()
    crowd = Presence(readers={"de": 1}, members=1)
    push(box, Tick(seq=1), crowd, final("a"), Tick(seq=2), crowd, Tick(seq=3))
    assert names(taken(box)) == ["final", "presence", "tick"]


def test_what_must_not_be_lost_closes_the_socket_over_the_bound() -> None:
    box = outbox(outbox_bytes=BOUND)
    fill(box, 6 / 8)
    assert box.closing is None
    fill_until_closed(box)
    assert box.closing is CloseCode.TOO_SLOW
    assert box.reason == "This socket does not read fast enough."
    assert len(box) == box.bytes == 0


def fill_until_closed(box: Outbox) -> None:
    for n in range(1_000):
        push(box, final("x" * 200, id=f"g{n}"))


def test_deltas_alone_never_close_a_socket() -> None:
    box = outbox(outbox_bytes=BOUND, outbox_s=10)
    for n in range(1, 2_000):
        push(box, delta("x" * 100, 100 * n, draft="y" * 100), now=NOW + n)
        assert box.bytes <= BOUND
    assert box.closing is None


def test_one_huge_delta_does_not_close_a_socket_either() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("x" * BOUND), Tick(seq=1))
    assert taken(box) == [Lag(dropped=1, ms=0), Tick(seq=1)]


def test_captions_with_holes_are_not_remembered_without_bound() -> None:
    box = outbox(outbox_bytes=BOUND)
    fill(box, 1 / 2)
    while box.closing is None:
        push(box, delta("a", id=f"u{len(box._lost)}"))
    assert box.closing is CloseCode.TOO_SLOW
    assert len(box._lost) < BOUND / HOLE_BYTES


def test_a_reader_that_does_not_take_what_was_decided_for_too_long_is_too_slow() -> None:
    box = outbox(outbox_s=10)
    push(box, Tick(seq=1), delta("a"))
    push(box, final("b", id="u2"), now=NOW + 20)
    push(box, delta("b", 2), now=NOW + 30)
    assert box.closing is None
    push(box, delta("c", 3), now=NOW + 30.1)
    assert box.closing is CloseCode.TOO_SLOW


def test_a_reader_that_takes_in_time_is_never_too_slow() -> None:
    box = outbox(outbox_s=10)
    for n in range(100):
        push(box, final("a", id=f"u{n}"), now=NOW + 9 * n)
        assert len(box.take()) == 1
    assert box.closing is None


def test_much_is_taken_in_pages_and_each_frame_ages_for_itself() -> None:
    box = outbox(outbox_bytes=BOUND, outbox_s=10)
    fill(box, 1 / 4)
    whole = len(box)
    push(box, delta("a"), Tick(seq=1), now=NOW + 8)
    push(box, final("a", id="last"), now=NOW + 9)
    events = [read(frame) for frame in box.take(BOUND // 16)]
    assert 1 < len(events) < whole / 2
    while not any(isinstance(event, Tick) for event in events):
        assert box.bytes == sum(size for _, _, size, _ in box._queue.values())
        events += [read(frame) for frame in box.take(BOUND // 16)]
    push(box, final("a", id="very last"), now=NOW + 19)  # that is ten seconds after the last
    assert box.closing is None
    events += taken(box)
    ids = [event.id for event in events if isinstance(event, Final)]
    assert ids == [*(f"f{n}" for n in range(whole)), "last", "very last"]
    assert names(events[-4:]) == ["delta", "tick", "final", "final"]


@pytest.mark.parametrize("text", ["a", "x" * 300, "Grüße", "漢字かな" * 20, "a" * 40 + "😀"])
@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MSGPACK])
def test_what_waits_takes_no_more_memory_than_is_counted(codec: Codec, text: str) -> None:
    box = outbox(codec)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for n in range(90):
            push(box, final(text, id=f"f{n}"), delta(text, id=f"d{n}", draft=text))
            push(box, delta(text, 2 * len(text), id=f"m{n}"), delta(text, id=f"m{n}", reset=True))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(box) == 270, "nothing was dropped"
    assert after - before <= box.bytes
    assert box.bytes < 4 * (after - before)


def test_what_becomes_of_frames_is_counted_over_all_sockets() -> None:
    tally = Tally()
    for _ in range(2):
        box = Outbox(Codec.JSON, Limits(outbox_bytes=BOUND), tally)
        push(box, delta("a"), delta("b", 2, draft="c"))
        fill(box, 1 / 2)
        push(box, delta("c", 3))
        taken(box)
        fill_until_closed(box)
    assert (tally.merged, tally.drafts, tally.deltas, tally.lags, tally.slow) == (2, 2, 4, 2, 2)


def test_after_a_close_nothing_more_is_taken_in_but_what_waits_is_sent() -> None:
    box = outbox()
    woken: list[bool] = []
    box.wake = lambda: woken.append(True)
    push(box, Tick(seq=1))
    box.close(CloseCode.DONE)
    push(box, Tick(seq=2))
    assert taken(box) == [Tick(seq=1)]
    assert woken == [True, True]


def test_the_first_reason_to_close_stays() -> None:
    box = outbox()
    box.close(CloseCode.DONE, "bye")
    box.close(CloseCode.TOO_SLOW, "slow")
    assert (box.closing, box.reason) == (CloseCode.DONE, "bye")


def test_the_gauges_count_frames_and_bytes_as_they_are_on_the_wire() -> None:
    for codec in (Codec.JSON, Codec.MSGPACK):
        box = outbox(codec)
        push(box, final("Grüße 😀"), final("plain"))
        frames = box.take()
        size = sum(len(f.encode()) if isinstance(f, str) else len(f) for f in frames)
        assert box.bytes == 0
        assert (box.frames, box.sent) == (2, size)


def test_what_a_person_is_not_shown_takes_no_place() -> None:
    box = outbox(Codec.PLAIN)
    push(box, delta("a"), Tick(seq=1))
    assert len(box) == 0
    push(box, final("Guten Morgen"))
    assert box.take() == ["[de] Guten Morgen"]


def test_a_message_for_one_socket_waits_like_any_other() -> None:
    box = outbox()
    box.send(Tick(seq=1), NOW)
    assert taken(box) == [Tick(seq=1)]


def test_what_fits_at_once_leaves_half_of_the_bound_free() -> None:
    failure = Envelope(failed())
    size = ENTRY_BYTES + getsizeof(failure.wire(Codec.JSON))
    box = outbox(outbox_bytes=6 * size)
    assert box.fits([failure] * 3) and not box.fits([failure] * 4)
    push(box, failed())
    assert box.fits([failure] * 2) and not box.fits([failure] * 3)
    assert outbox(Codec.PLAIN, outbox_bytes=0).fits([Envelope(Tick(seq=1))])


def test_it_can_be_read_in_a_log() -> None:
    box = outbox()
    push(box, Tick(seq=1))
    assert repr(box) == f"<Outbox open, 1 frames, {box.bytes} bytes>"
    box.close(CloseCode.DONE)
    assert "closing 1000" in repr(box)


def test_a_frame_before_which_nothing_waits_is_written_at_once_with_its_head() -> None:
    box = outbox()
    written: list[bytes] = []
    box.post = written.append
    events = [Tick(seq=1), delta("a"), final("x" * 200), final("y" * 70_000)]
    push(box, *events)
    frames = [framing.message(wire) for wire in written]
    assert [read(frame) for frame in frames] == events
    assert len(box) == box.bytes == 0
    assert (box.frames, box.sent) == (4, sum(map(len, frames)))


def test_what_a_codec_does_not_show_is_not_written() -> None:
    box = outbox(Codec.PLAIN)
    written: list[bytes] = []
    box.post = written.append
    push(box, delta("Hal"), final("Hallo"))
    assert [framing.message(wire) for wire in written] == ["[de] Hallo"]
    assert (box.frames, box.sent) == (1, len("[de] Hallo"))


def test_what_came_while_there_was_no_room_is_overtaken_by_nothing() -> None:
    box = outbox()
    written: list[bytes] = []

    def last(wire: bytes) -> None:  # it fills the socket, which says so while it is written
        written.append(wire)
        box.post = None

    box.post = last
    push(box, Tick(seq=1), final("a"))
    box.post = written.append
    push(box, final("b"))
    assert [read(framing.message(wire)) for wire in written] == [Tick(seq=1)]
    assert taken(box) == [final("a"), final("b")]
    push(box, final("c"))
    assert [read(framing.message(wire)) for wire in written] == [Tick(seq=1), final("c")]


def test_nothing_is_written_past_a_hole_or_a_lag_that_is_still_to_be_told() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("a"))
    fill(box, 1 / 2)
    box.take()  # with a lag
    push(box, delta("b", 2), now=NOW + 0.1)
    written: list[ServerMessage] = []
    box.post = lambda wire: written.append(read(framing.message(wire)))
    push(box, delta("c", 3), final("abc"), now=NOW + 0.2)
    assert taken(box) == [final("abc")]
    push(box, Tick(seq=1), now=NOW + LAG_S)
    assert taken(box) == [Lag(dropped=2, ms=0), Tick(seq=1)]
    push(box, Tick(seq=2))
    assert written == [Tick(seq=2)]


def test_nothing_is_written_after_a_close() -> None:
    box = outbox()
    written: list[bytes] = []
    box.post = written.append
    box.close(CloseCode.DONE)
    push(box, Tick(seq=1))
    box.post = written.append  # there is room again
    push(box, Tick(seq=2))
    assert written == [] and len(box) == 0


def test_an_outbox_nobody_writes_for_any_more_wakes_and_writes_nothing() -> None:
    box = outbox()
    calls: list[str] = []
    box.wake = lambda: calls.append("wake")
    box.post = lambda _: calls.append("post")
    assert box.post is not None
    box.detach()
    push(box, Tick(seq=1))
    assert calls == [] and len(box) == 1 and box.post is None


def test_so_much_is_taken_as_was_asked_for_and_the_rest_stays_in_order() -> None:
    box = outbox()
    push(box, *(final("x" * 100, id=f"u{n}") for n in range(10)))
    size = box.bytes // 10
    first = box.take(3 * size - 1)
    assert len(first) == 3 and len(box) == 7 and box.bytes == 7 * size
    assert (box.frames, box.sent) == (3, sum(map(len, first)))
    assert [read(frame) for frame in first + box.take(box.bytes)] == [
        final("x" * 100, id=f"u{n}") for n in range(10)
    ]


def test_more_is_asked_for_when_everything_has_been_taken() -> None:
    box = outbox()
    asked: list[int] = []
    box.refill = lambda: asked.append(len(box))
    push(box, Tick(seq=1), final("a"))
    box.take(1)
    assert asked == []
    box.take()
    assert asked == [0]
    assert box.take() == [] and asked == [0]


def test_a_delta_that_was_taken_is_merged_with_no_later_one() -> None:
    box = outbox()
    push(box, delta("a"), delta("b", lang="fr"), delta("c", id="u2"))
    assert len(box.take(1)) == 1
    push(box, delta("d", 2), delta("e", 2, lang="fr"))
    assert taken(box) == [delta("c", id="u2"), delta("d", 2), delta("be", 2, lang="fr")]
