"""Turns at the thread that decodes audio."""

from __future__ import annotations

import threading

from gateway.server.audio.decoding_thread import (
    AHEAD,
    FRAME_MEMORY,
    Decoded,
    DecodingThread,
    UndecodedAudio,
)
from tests.support.hearing import Loudness
from tests.support.live import until

SECOND = bytes(32_000)


class Recorder:
    """Streams whose batches are noted in the order in which they are decoded."""

    def __init__(self) -> None:
        self.thread = DecodingThread()
        self.may_go = threading.Event()
        self.order: list[str] = []
        self.done: list[Decoded | BaseException] = []

    def stream(self, id: str, room: str, tenant: str) -> UndecodedAudio:
        recorder = self

        class Decoder:
            def decode(self, frame: bytes) -> bytes:
                recorder.may_go.wait()
                recorder.order.append(id)
                return frame

            def finish(self) -> bytes:
                return b""

        return UndecodedAudio(
            self.thread, Decoder(), Loudness(), self.done.append, id=id, room=room, tenant=tenant
        )


async def test_thirty_streams_of_one_tenant_do_not_delay_the_stream_of_another() -> None:
    recorder = Recorder()
    many = [recorder.stream(f"a{n}", f"room {n}", "a") for n in range(30)]
    one = recorder.stream("b", "another room", "b")
    for stream in [*many, one]:
        for _ in range(3):
            stream.add_frame(SECOND, 1.0)
    recorder.may_go.set()
    await until(lambda: len(recorder.done) == 3 * 31)
    recorder.thread.close()
    turns = [place for place, id in enumerate(recorder.order) if id == "b"]
    # It comes behind what the thread was given before, and then has every second turn.
    assert turns[0] <= AHEAD + 1
    assert turns[-1] <= AHEAD + 1 + 2 * 3


async def test_frames_of_no_length_take_turns_too() -> None:
    recorder = Recorder()
    flood, other = recorder.stream("a", "x", "a"), recorder.stream("b", "y", "b")
    for _ in range(1_000):
        flood.add_frame(b"", 0.0)
    other.add_frame(SECOND, 1.0)
    assert flood.held == 1_000 * FRAME_MEMORY
    recorder.may_go.set()
    await until(lambda: "b" in recorder.order)
    assert recorder.order.index("b") <= AHEAD * 100
    await until(lambda: len(recorder.order) == 1_001 and not flood.held)
    recorder.thread.close()


async def test_a_stream_that_is_closed_gives_up_its_turn_and_its_memory() -> None:
    recorder = Recorder()
    streams = [recorder.stream(f"a{n}", "x", "a") for n in range(5)]
    for stream in streams:
        stream.add_frame(SECOND, 1.0)
    for stream in streams:
        stream.close()
        stream.add_frame(SECOND, 1.0)
        assert (stream.held, stream.waiting) == (0, 0.0)
    recorder.may_go.set()
    last = recorder.stream("last", "x", "a")
    last.add_frame(SECOND, 1.0)
    await until(lambda: "last" in recorder.order)
    recorder.thread.close()
    assert len(recorder.order) == AHEAD + 1 and not [d for d in recorder.done if not d]
