"""Frames that a reader does not take: which are dropped, and when the socket is closed."""

from __future__ import annotations

import tracemalloc
from sys import getsizeof

import pytest

from gateway.core.delivery.outbox import HOLE_BYTES, LAG_S, Outbox
from gateway.core.delivery.waiting_frames import DeliveryCounters, weight
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.protocol import frames as framing
from gateway.protocol.codec import Codec
from gateway.protocol.messages import Delta, Final, Retracted, ServerMessage
from gateway.protocol.notices import Lag, Presence, Tick
from tests.core.delivery.test_outbox import cancelled, delta, final, outbox, push, snapshot, taken
from tests.support.meeting import NOW, names, read
from tests.support.typed import current

BOUND = 64_000


def fill(box: Outbox, share: float) -> None:
    """Fill a share of the bound with durable events."""
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
    # The reader has caught up, but never saw the beginning of these captions.
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


def test_a_retracted_caption_has_no_hole() -> None:
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


def test_up_to_half_of_the_bound_deltas_wait_without_their_drafts() -> None:
    box = outbox(outbox_bytes=BOUND)
    fill(box, 0.4)
    push(box, delta("a", draft="b"))
    assert taken(box)[-1] == delta("a", draft="")


def test_what_waits_is_counted_anew_when_its_draft_is_dropped() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("a", draft="b" * 1_000))
    fill(box, 1 / 4)
    sizes = [(size, weight(wire, kept)) for wire, kept, size, _ in box._queue.values()]
    assert all(size == counted for size, counted in sizes)
    assert box.bytes == sum(size for size, _ in sizes)


def test_once_deltas_are_dropped_they_are_until_everything_was_taken() -> None:
    box = outbox(outbox_bytes=BOUND)
    fill(box, 1 / 2)
    box.take(BOUND // 4)
    push(box, delta("a", id="new"))
    assert "delta" not in names(taken(box))
    push(box, delta("a", id="newer"))
    assert names(taken(box)) == ["delta"]


def test_a_heartbeat_waits_whatever_is_dropped() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, Tick(seq=1))
    fill(box, 1 / 2)
    assert Tick(seq=1) in taken(box)


def test_every_draft_that_was_dropped_counts() -> None:
    box = outbox(outbox_bytes=BOUND)
    fill(box, 1 / 4)
    push(box, *(delta("a", id=f"u{n}", draft="b") for n in range(3)))
    lag = taken(box)[0]
    assert isinstance(lag, Lag) and lag.dropped == 3


def test_the_drafts_that_wait_already_are_dropped_with_those_that_follow() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("a", draft="b"), delta("a", id="u2", draft="b"))
    fill(box, 1 / 4)
    push(box, delta("a", id="u3", draft="b"))
    lag = taken(box)[0]
    assert isinstance(lag, Lag) and lag.dropped == 3


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


def test_only_the_newest_presence_and_tick_wait() -> None:
    box = outbox()
    crowd = Presence(readers={"de": 1}, members=1)
    push(box, Tick(seq=1), crowd, final("a"), Tick(seq=2), crowd, Tick(seq=3))
    assert names(taken(box)) == ["final", "presence", "tick"]


def test_durable_events_over_the_bound_close_the_socket() -> None:
    box = outbox(outbox_bytes=BOUND)
    fill(box, 6 / 8)
    assert current(box.closing) is None
    fill_until_closed(box)
    assert box.closing is CloseCode.TOO_SLOW
    assert box.reason == "This socket does not read fast enough."
    assert len(box) == box.bytes == 0


def test_seven_eighths_of_the_bound_may_wait() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, final("x" * 200, id="f00"))
    size, count = box.bytes, 1
    while box.closing is None:
        assert box.bytes == count * size <= BOUND * 7 / 8
        push(box, final("x" * 200, id=f"f{count:02}"))
        count += 1
    assert count * size > BOUND * 7 / 8


def fill_until_closed(box: Outbox) -> None:
    for n in range(1_000):
        push(box, final("x" * 200, id=f"g{n}"))


def test_deltas_alone_never_close_a_socket() -> None:
    box = outbox(outbox_bytes=BOUND, outbox_s=10)
    for n in range(1, 2_000):
        push(box, delta("x" * 100, 100 * n, draft="y" * 100), now=NOW + n)
        assert box.bytes <= BOUND
    assert box.closing is None


def test_a_huge_delta_does_not_close_the_socket() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("x" * BOUND), Tick(seq=1))
    assert taken(box) == [Lag(dropped=1, ms=0), Tick(seq=1)]


def test_captions_with_holes_are_not_remembered_without_bound() -> None:
    box = outbox(outbox_bytes=BOUND)
    fill(box, 1 / 2)
    while box.closing is None:
        push(box, delta("a", id=f"u{len(box._holes)}"))
    assert box.closing is CloseCode.TOO_SLOW
    assert len(box._holes) < BOUND / HOLE_BYTES


def test_the_ids_of_captions_with_holes_are_counted_and_counted_off_again() -> None:
    box = outbox(outbox_bytes=BOUND)
    fill(box, 1 / 2)
    ids = ["😀" * 70 + str(n) for n in range(10)]
    push(box, *(delta("a", id=id) for id in ids), *(delta("b", 2, id=id) for id in ids))
    assert len(box._holes) == 10
    assert box._hole_bytes > sum(map(getsizeof, ids))
    push(box, *(final("ab", id=id) for id in ids))
    assert box._hole_bytes == len(box._holes) == 0


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


def test_after_a_page_the_oldest_event_that_still_waits_counts() -> None:
    box = outbox(outbox_s=10)
    push(box, final("a"), now=NOW)
    push(box, Tick(seq=1), delta("a", id="u3"), now=NOW + 1)
    push(box, final("b", id="u2"), now=NOW + 5)
    assert names([read(frame) for frame in box.take(1)]) == ["final"]
    push(box, Tick(seq=2), now=NOW + 15)
    assert box.closing is None
    push(box, Tick(seq=3), now=NOW + 16)
    assert box.closing is CloseCode.TOO_SLOW


def test_a_message_for_one_socket_counts_from_when_it_was_sent() -> None:
    box = outbox(outbox_s=10)
    box.send(final("a"), NOW)
    box.send(Tick(seq=1), NOW + 11)
    assert box.closing is CloseCode.TOO_SLOW


def test_a_reset_heals_a_hole_for_the_deltas_behind_it() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("a"))
    fill(box, 1 / 2)
    taken(box)
    push(box, delta("ab", reset=True))
    assert box._hole_bytes == len(box._holes) == 0
    assert taken(box) == [delta("ab", reset=True)]
    push(box, delta("c", 3))
    assert taken(box) == [delta("c", 3)]


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
    push(box, final("a", id="very last"), now=NOW + 19)  # ten seconds after the last
    assert box.closing is None
    events += taken(box)
    ids = [event.id for event in events if isinstance(event, Final)]
    assert ids == [*(f"f{n}" for n in range(whole)), "last", "very last"]
    assert names(events[-4:]) == ["delta", "tick", "final", "final"]


@pytest.mark.parametrize("text", ["a", "x" * 300, "Grüße", "漢字かな" * 20, "a" * 40 + "😀"])
@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MSGPACK])
def test_waiting_frames_take_no_more_memory_than_is_counted(codec: Codec, text: str) -> None:
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


def test_the_ids_of_waiting_deltas_are_counted_too() -> None:
    box = outbox()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for n in range(90):
            push(box, delta("a", id="😀" * 70 + str(n)))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before <= box.bytes


def test_dropped_and_merged_frames_are_counted_over_all_sockets() -> None:
    tally = DeliveryCounters()
    for _ in range(2):
        box = Outbox(Codec.JSON, Limits(outbox_bytes=BOUND), tally)
        push(box, delta("a"), delta("b", 2, draft="c"))
        fill(box, 1 / 2)
        push(box, delta("c", 3))
        taken(box)
        fill_until_closed(box)
    assert (tally.merged, tally.drafts, tally.deltas, tally.lags, tally.slow) == (2, 2, 4, 2, 2)


def test_nothing_is_written_past_a_hole_or_a_lag_that_is_still_to_be_told() -> None:
    box = outbox(outbox_bytes=BOUND)
    push(box, delta("a"))
    fill(box, 1 / 2)
    box.take()  # a lag goes ahead
    push(box, delta("b", 2), now=NOW + 0.1)
    written: list[ServerMessage] = []
    box.post = lambda wire: written.append(read(framing.message(wire)))
    push(box, delta("c", 3), final("abc"), now=NOW + 0.2)
    assert taken(box) == [final("abc")]
    push(box, Tick(seq=1), now=NOW + LAG_S)
    assert taken(box) == [Lag(dropped=2, ms=0), Tick(seq=1)]
    push(box, Tick(seq=2))
    assert written == [Tick(seq=2)]
