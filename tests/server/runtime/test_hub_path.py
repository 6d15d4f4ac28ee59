"""The way of a text from a frame to the engine, and of a piece of its caption to a socket."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import gateway
from gateway.core.captions.ingest import Ingest
from gateway.core.session.connect_request import ConnectRequest
from gateway.engines.base.engine import Sink
from gateway.engines.scripted import ScriptedEngine
from gateway.job import Chunk, Job
from gateway.limits import Limits
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost

ROOT = str(Path(gateway.__file__).parent)


class Taken(ScriptedEngine):
    """An engine that only takes jobs."""

    def __init__(self) -> None:
        super().__init__(capacity=8)
        self.sinks: list[Sink] = []

    def submit(self, job: Job, sink: Sink) -> None:
        self.sinks.append(sink)


def calls_of(work: Callable[[], object], until: CodeType) -> list[tuple[str, int]]:
    """Return file and depth of each call inside of the gateway, until a function is called."""
    calls: list[tuple[str, int]] = []
    depth = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal depth
        if frame.f_code is until:
            sys.setprofile(None)
        elif frame.f_code.co_filename.startswith(ROOT):
            if event == "call":
                depth += 1
                calls.append((frame.f_code.co_filename, depth))
            elif event == "return":
                depth -= 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


async def test_a_text_is_short_of_calls_and_files_on_its_way_to_the_engine() -> None:
    engine = Taken()
    await engine.start()
    hub = Hub(RoomHost(engine, Limits()))
    reader = hub.open(ConnectRequest(room="r", targets=("de",), source="en"))
    speaker = hub.open(ConnectRequest(room="r", source="en"))
    for session in (reader, speaker):  # their sockets have room
        session.outbox.take()
        session.outbox.post = len
    ids = iter("abcd")

    def say() -> None:
        hub.receive(speaker, f'{{"type":"say","id":"{next(ids)}","text":"Good morning."}}')

    say()  # the first text fills caches, and its caption is told as context to the next
    for piece in ("Guten", " Morgen"):
        engine.sinks[-1].chunk(Chunk(piece))
    engine.sinks.pop().end(None)
    path = calls_of(say, Taken.submit.__code__)
    files = [file for file, _ in path]
    assert len(path) <= 160
    assert len(set(files)) <= 26
    assert sum(a != b for a, b in zip(files, files[1:], strict=False)) <= 70
    # The first decision is made in the fifth call from the socket on.
    assert calls_of(say, Ingest.say.__code__)[-1][1] <= 5
    delta = calls_of(lambda: engine.sinks[-1].chunk(Chunk("Guten")), Taken.submit.__code__)
    assert len(delta) <= 15
