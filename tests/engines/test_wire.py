"""EngineCore's messages by the short way: all of them, in order, whenever it was taken."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.engines.wire import shorten
from tests.engines.vllm_factory import require
from tests.live import until

pytestmark = pytest.mark.vllm


def around(socket: Any) -> Any:
    """As much of an `AsyncLLM` as has the socket."""
    resources = SimpleNamespace(output_socket=socket)
    return SimpleNamespace(engine_core=SimpleNamespace(resources=resources))


@pytest.mark.parametrize("waiting", [False, True], ids=["before", "while one waits"])
def test_every_message_arrives_and_in_order(tmp_path: Path, waiting: bool) -> None:
    require()
    import zmq
    import zmq.asyncio

    async def work() -> list[bytes]:
        with zmq.asyncio.Context() as context, context.socket(zmq.PULL) as socket:
            socket.bind(f"ipc://{tmp_path}/s")
            got: list[bytes] = []

            async def read() -> None:
                while len(got) < 60:
                    (frame,) = await socket.recv_multipart(copy=False)
                    got.append(bytes(frame))

            reading = asyncio.create_task(read())
            if waiting:
                await asyncio.sleep(0)
            assert shorten(around(socket))
            with zmq.Context() as other, other.socket(zmq.PUSH) as sender:
                sender.connect(f"ipc://{tmp_path}/s")
                for burst in range(20):
                    for number in range(3):
                        sender.send(b"%d" % (3 * burst + number))
                    await until(lambda least=3 * burst: len(got) > least)
                async with asyncio.timeout(30):
                    await reading
            return got

    assert asyncio.run(work()) == [b"%d" % number for number in range(60)]


def test_a_socket_of_another_kind_is_left_alone() -> None:
    assert not shorten(around(object()))
    assert not shorten(SimpleNamespace())
