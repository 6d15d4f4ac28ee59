"""Frames wait in order, deltas merge, and a reader that is too slow is closed."""

from __future__ import annotations

from sys import getsizeof
from typing import Any

import pytest

from gateway.core.delivery.outbox import LATE_BYTES, Outbox
from gateway.core.delivery.waiting_frames import ENTRY_BYTES
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.protocol import frames as framing
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import (
    Ack,
    Cancelled,
    Delta,
    Failed,
    Final,
    Line,
    ServerMessage,
    Snapshot,
    Timing,
)
from gateway.protocol.notices import Tick
from tests.support.meeting import NOW, names, read


def outbox(codec: Codec = Codec.JSON, **limits: Any) -> Outbox:
    return Outbox(codec, Limits(**limits))


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
    messages: list[ServerMessage] = [
        Ack(id="u1", rev=1, ord=1),
        delta("a"),
        final("a"),
        Tick(seq=1),
    ]
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


def test_a_delta_is_not_merged_into_one_that_was_taken() -> None:
    box = outbox()
    push(box, delta("a"))
    box.take()
    push(box, delta("b", 2))
    assert taken(box) == [delta("b", 2)]


def test_nothing_merges_across_a_snapshot() -> None:
    box = outbox()
    messages: list[ServerMessage] = [delta("a"), snapshot("a"), delta("b", 2)]
    push(box, *messages)
    assert taken(box) == messages


def test_a_snapshot_of_another_utterance_is_no_obstacle() -> None:
    box = outbox()
    push(box, delta("a"), snapshot("x", "u2"), delta("b", 2))
    assert names(taken(box)) == ["snapshot", "delta"]


def late(box: Outbox) -> None:
    """Make the reader so late that void deltas are dropped."""
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


def test_frames_and_bytes_of_several_writes_add_up() -> None:
    box = outbox()
    sizes = []
    for text in ("a", "b" * 500):
        push(box, final(text), Tick(seq=1))
        sizes += [len(frame) for frame in box.take()]
    assert (box.frames, box.sent) == (4, sum(sizes))


def test_an_open_outbox_has_no_reason_to_close_and_a_close_needs_none() -> None:
    box = outbox()
    assert (box.closing, box.reason) == (None, "")
    box.close(CloseCode.DONE)
    assert (box.closing, box.reason) == (CloseCode.DONE, "")


def test_as_many_frames_are_taken_as_reach_the_bytes_asked_for() -> None:
    box = outbox()
    push(box, final("a"))
    one = box.bytes
    push(box, final("a"), final("a"))
    assert len(box.take(one)) == 1
    assert len(box.take(one + 1)) == 2


def test_an_event_that_the_codec_does_not_show_takes_no_memory() -> None:
    box = outbox(Codec.PLAIN)
    push(box, delta("a"), Tick(seq=1))
    assert len(box) == 0
    push(box, final("Guten Morgen"))
    assert box.take() == ["[de] Guten Morgen"]


def test_a_message_for_one_socket_waits_like_any_other() -> None:
    box = outbox()
    box.send(Tick(seq=1), NOW)
    assert taken(box) == [Tick(seq=1)]


def test_events_fit_if_they_leave_half_of_the_bound_free() -> None:
    failure = Envelope(failed())
    size = ENTRY_BYTES + getsizeof(failure.wire(Codec.JSON))
    box = outbox(outbox_bytes=6 * size)
    assert box.fits([failure] * 3) and not box.fits([failure] * 4)
    push(box, failed())
    assert box.fits([failure] * 2) and not box.fits([failure] * 3)
    assert outbox(Codec.PLAIN, outbox_bytes=0).fits([Envelope(Tick(seq=1))])


def test_an_outbox_is_readable_in_a_log() -> None:
    box = outbox()
    push(box, Tick(seq=1))
    assert repr(box) == f"<Outbox open, 1 frames, {box.bytes} bytes>"
    box.close(CloseCode.DONE)
    assert "closing 1000" in repr(box)


def test_a_frame_before_which_nothing_waits_is_written_at_once_with_its_head() -> None:
    box = outbox()
    written: list[bytes] = []
    box.post = written.append
    events: list[ServerMessage] = [Tick(seq=1), delta("a"), final("x" * 200), final("y" * 70_000)]
    push(box, *events)
    frames = [framing.message(wire) for wire in written]
    assert [read(frame) for frame in frames] == events
    assert len(box) == box.bytes == 0
    assert (box.frames, box.sent) == (4, sum(map(len, frames)))


def test_an_event_that_the_codec_does_not_show_is_not_written() -> None:
    box = outbox(Codec.PLAIN)
    written: list[bytes] = []
    box.post = written.append
    push(box, delta("Hal"), final("Hallo"))
    assert [framing.message(wire) for wire in written] == ["[de] Hallo"]
    assert (box.frames, box.sent) == (1, len("[de] Hallo"))


def test_no_frame_overtakes_those_that_wait() -> None:
    box = outbox()
    written: list[bytes] = []

    def last(wire: bytes) -> None:  # fills the socket, which reports it during the write
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


def test_nothing_is_written_after_a_close() -> None:
    box = outbox()
    written: list[bytes] = []
    box.post = written.append
    box.close(CloseCode.DONE)
    push(box, Tick(seq=1))
    box.post = written.append  # the socket has room again
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


def test_frames_are_taken_up_to_the_bytes_asked_for_and_the_rest_stays_in_order() -> None:
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
