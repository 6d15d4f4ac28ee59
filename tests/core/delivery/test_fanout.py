"""Sockets of one group are written to together, and each gets the same as alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.delivery.fanout import FanoutGroup
from gateway.core.delivery.outbox import Outbox
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.protocol import frames
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import Delta, Final, ServerMessage, Timing
from gateway.protocol.notices import Tick
from tests.support.meeting import NOW, read


def delta(add: str, n: int) -> Delta:
    return Delta(id="u1", rev=1, lang="de", add=add, n=n)


def final(text: str) -> Final:
    ms = Timing(queue=0, first=0, total=0)
    return Final(seq=1, id="u1", rev=1, ord=1, lang="de", text=text, by="mt", ms=ms)


class Reader:
    """An outbox, and the events that were written from it, in order."""

    def __init__(self, *circles: FanoutGroup, codec: Codec = Codec.JSON) -> None:
        self.outbox = Outbox(codec, Limits())
        self.written: list[ServerMessage] = []
        for circle in circles:
            self.outbox.enter(circle)

    def open(self) -> None:
        self.outbox.post = self.write

    def write(self, wire: bytes) -> None:
        self.written.append(read(frames.message(wire)))

    def take(self) -> None:
        self.written += [read(frame) for frame in self.outbox.take()]


def circle() -> FanoutGroup:
    return FanoutGroup("de", True, Codec.JSON, Codec.JSON.wire)


def test_all_are_written_the_same_bytes() -> None:
    round = circle()
    one, two = Reader(round), Reader(round)
    wires: list[bytes] = []
    for reader in (one, two):
        reader.outbox.post = wires.append
    round.show(delta("a", 1), NOW)
    assert wires[0] is wires[1]
    assert read(frames.message(wires[0])) == delta("a", 1)


def test_a_delta_waits_for_a_socket_that_cannot_be_written_to() -> None:
    round = circle()
    ready, late = Reader(round), Reader(round)
    ready.open()
    round.show(delta("a", 1), NOW)
    round.show(delta("b", 2), NOW)
    late.take()
    assert (ready.written, late.written) == ([delta("a", 1), delta("b", 2)], [delta("ab", 2)])


def test_a_write_that_fills_its_socket_is_not_sent_again() -> None:
    round = circle()
    reader = Reader(round)

    def full(wire: bytes) -> None:
        reader.write(wire)
        reader.outbox.post = None

    reader.outbox.post = full
    round.show(delta("a", 1), NOW)
    assert len(reader.outbox) == 0
    round.show(delta("b", 2), NOW)
    reader.open()  # the socket has room, but waiting frames go first
    round.show(delta("c", 3), NOW)
    reader.take()
    round.show(delta("d", 4), NOW)
    assert reader.written == [delta("a", 1), delta("bc", 3), delta("d", 4)]


def test_a_reader_that_catches_up_is_shown_no_deltas() -> None:
    round = circle()
    reader, other = Reader(round), Reader(round)
    reader.open()
    reader.outbox.hold(True)
    round.show(delta("a", 1), NOW)
    reader.outbox.send(final("a"), NOW)
    other.outbox.hold(True)
    round.show(delta("b", 2), NOW)
    reader.outbox.hold(False)
    round.show(delta("c", 3), NOW)
    assert reader.written == [final("a"), delta("c", 3)]
    assert len(other.outbox) == 1, "only what came before it was held"


def test_a_group_sends_nothing_to_sockets_that_left() -> None:
    round = circle()
    ready, late = Reader(round), Reader(round)
    ready.open()
    assert len(round) == 2
    for reader in (ready, late):
        reader.outbox.leave(round)
    round.show(delta("a", 1), NOW)
    assert not ready.written and not len(late.outbox) and not len(round)


def test_nothing_is_written_after_a_close() -> None:
    round = circle()
    reader = Reader(round)
    reader.open()
    reader.outbox.close(CloseCode.DONE)
    round.show(delta("a", 1), NOW)
    assert not reader.written and not len(reader.outbox)


def test_a_delta_that_the_codec_does_not_show_is_not_written() -> None:
    round = FanoutGroup("de", True, Codec.PLAIN, Codec.PLAIN.wire)
    reader = Reader(round, codec=Codec.PLAIN)
    reader.open()
    round.show(delta("a", 1), NOW)
    assert (reader.written, reader.outbox.frames) == ([], 0)


def test_an_outbox_counts_what_its_socket_was_written_whatever_groups_it_enters() -> None:
    first, second = circle(), circle()
    other, reader = Reader(first, second), Reader()
    payloads: list[int] = []
    reader.outbox.post = lambda wire: payloads.append(len(wire) - frames.offset(wire))
    other.open()

    def check() -> None:
        assert (reader.outbox.frames, reader.outbox.sent) == (len(payloads), sum(payloads))

    check()
    for text in ("a", "b" * 500, "c" * 70_000):
        first.show(delta(text, 1), NOW)
        second.show(delta(text, 1), NOW)
        check()
        reader.outbox.enter(first)
        first.show(delta(text, 1), NOW)
        reader.outbox.send(final(text), NOW)
        reader.outbox.enter(second)
        for group in (first, second, first):
            group.show(delta(text, 1), NOW)
            check()
        reader.outbox.leave(first)
        check()
        second.show(delta(text, 1), NOW)
        first.show(delta(text, 1), NOW)
        reader.outbox.leave(second)
        check()
    assert len(payloads) == 18


def test_a_group_is_of_one_view_and_has_sent_nothing_at_first() -> None:
    for live in (True, False):
        group = FanoutGroup("de", live, Codec.JSON, Codec.JSON.wire)
        assert (group.live, group.frames, group.sent) == (live, 0, 0)


def test_a_delta_for_a_socket_that_waits_shows_whether_it_is_too_slow() -> None:
    group = circle()
    late = Reader(group)
    late.outbox.send(final("a"), NOW)
    group.show(delta("a", 1), NOW + Limits().outbox_s)
    assert late.outbox.closing is None
    group.show(delta("b", 2), NOW + Limits().outbox_s + 1)
    assert late.outbox.closing is CloseCode.TOO_SLOW


def test_a_socket_that_is_written_to_otherwise_stays_in_its_circle() -> None:
    round = circle()
    reader, first = Reader(round), Reader(round)
    first.open()
    reader.outbox.post = first.write
    round.show(delta("a", 1), NOW)
    reader.open()
    round.show(delta("b", 2), NOW)
    assert reader.written == [delta("b", 2)]
    assert reader.outbox.frames == 2


STEPS = st.lists(
    st.sampled_from(["show", "show other", "send", "open", "shut", "take", "hold", "go on", "out"]),
    max_size=40,
)


@given(STEPS, st.booleans())
def test_a_reader_gets_and_counts_in_a_circle_what_it_would_alone(
    steps: list[str], company: bool
) -> None:
    round, other = circle(), circle()
    reader = Reader(round, other)
    alone = Reader()
    if company:
        Reader(round).open()
    held = out = False
    for n, step in enumerate(steps):
        event = delta(f"{n} ", n)
        match step:
            case "show" | "show other":
                (round if step == "show" else other).show(event, NOW + n)
                if not held and not (out and step == "show other"):
                    alone.outbox.push(Envelope(event), NOW + n)
            case "send":
                for each in (reader, alone):
                    each.outbox.send(Tick(seq=n), NOW + n)
            case "open":
                reader.open()
                alone.open()
            case "shut":
                reader.outbox.post = alone.outbox.post = None
            case "take":
                reader.take()
                alone.take()
            case "hold" | "go on":
                held = step == "hold"
                reader.outbox.hold(held)
            case "out" if not out:
                reader.outbox.leave(other)
                out = True
        assert reader.written == alone.written
        assert (reader.outbox.frames, reader.outbox.sent) == (
            alone.outbox.frames,
            alone.outbox.sent,
        )
