"""Several processes on one port: clients do not notice which one has a room."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import stat
from typing import Any

import pytest

from gateway.errors import CloseCode
from gateway.protocol.messages import PRIVATE
from gateway.server.cluster.placement import owner
from tests.server.cluster.several import CROWD, ROOMS, children, metrics, sockets, talk, workers
from tests.server.started import Process
from tests.support.live import until

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")


async def seen(query: str, process: Process, finals: int, ready: asyncio.Event) -> tuple[Any, ...]:
    """Return the durable events that a reader gets until ``finals`` captions have ended."""
    events = []
    async with talk(process, query) as reader:
        assert (await reader.next())["type"] == "welcome"
        ready.set()
        while finals:
            event = await reader.next()
            if "seq" in event:
                events.append((event["seq"], event["type"], event["text"]))
                finals -= event["type"] == "final"
    return tuple(events)


async def test_all_readers_of_a_room_get_the_same_events_whichever_worker_accepted_them() -> None:
    with workers() as process:
        for room in ("demo", "board", "hall"):
            ready = [asyncio.Event() for _ in range(CROWD)]
            query = f"room={room}&role=view&to=de"
            readers = [asyncio.create_task(seen(query, process, 6, one)) for one in ready]
            await asyncio.gather(*(one.wait() for one in ready))
            async with (
                talk(process, f"room={room}&from=en") as ann,
                talk(process, f"room={room}&from=en") as ben,
            ):
                for n in range(3):
                    await ann.send(f"ann says {n}")
                    await ben.send(f"ben says {n}")
                told = set(await asyncio.gather(*readers))
            assert len(told) == 1
            ((first, *rest),) = told
            assert [seq for seq, _, _ in (first, *rest)] == list(range(1, 13))
        found = await asyncio.to_thread(metrics, process)
        sent = [found[f'gateway_handover_total{{how="sent",worker="{n}"}}'] for n in (0, 1)]
        taken = [found[f'gateway_handover_total{{how="taken",worker="{n}"}}'] for n in (0, 1)]
        assert sent == taken[::-1] and sum(sent) > 0
        said = [found[f'gateway_utterances_total{{worker="{n}"}}'] for n in (0, 1)]
        assert sum(said) == 18
        process.popen.terminate()
        assert process.popen.wait(10) == 0
    assert "Traceback" not in process.text


async def test_a_resume_token_alone_leads_to_the_process_of_its_private_room() -> None:
    with workers() as process:
        for _ in range(CROWD):
            async with talk(process, "from=en&to=de") as client:
                welcome = await client.next()
                assert welcome["room"].startswith(PRIVATE)
                await client.send("one two")
                seq = (await client.until("final"))[-1]["seq"]
                client.ws.transport.abort()
            async with talk(
                process, f"resume={welcome['resume']}&epoch={welcome['epoch']}&seq={seq - 1}"
            ) as client:
                again = await client.next()
                assert (again["room"], again["resumed"]) == (
                    welcome["room"],
                    {"ok": True, "replayed": 1},
                )
                await client.send({"type": "bye"})
                assert (await client.closed())[0] == CloseCode.DONE


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str) -> bytes:
    """Send a request on a connection that stays open; return status and body."""
    writer.write(f"{line} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    body = await reader.readexactly(int(length[1])) if length else b""
    return head.split(b" ")[1] + b" " + body


async def test_one_connection_can_request_rooms_of_different_processes() -> None:
    with workers() as process:
        rooms = [f"room-{n}" for n in range(6)]
        assert {owner(room, (0, 1)) for room in rooms} == {0, 1}
        async with contextlib.AsyncExitStack() as stack:
            for room in rooms:
                client = await stack.enter_async_context(talk(process, f"room={room}&to=de"))
                await client.send(f"this was said in {room}")
                await client.until("final")
            reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
            for room in (*rooms, *rooms):
                found = await ask(reader, writer, f"GET /v1/rooms/{room}/transcript.txt")
                assert found.startswith(b"200") and f"said in {room}".encode() in found
            assert (await ask(reader, writer, "GET /healthz")).startswith(b"200")
            for room in rooms:
                assert (await ask(reader, writer, f"DELETE /v1/rooms/{room}")).startswith(b"204")
                missing = await ask(reader, writer, f"GET /v1/rooms/{room}/transcript.txt")
                assert missing.startswith(b"404")
            writer.close()
            await writer.wait_closed()


async def test_a_request_sent_ahead_of_an_answer_is_not_served_by_the_wrong_process() -> None:
    with workers() as process:
        for room in ROOMS:
            async with talk(process, f"room={room}&to=de") as client:
                await client.send("something")
                await client.until("final")
        line = "GET /v1/rooms/{}/transcript.txt HTTP/1.1\r\nhost: localhost\r\n\r\n"
        for _ in range(CROWD):  # the first request of some is handed over, too
            reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
            writer.write("".join(line.format(room) for room in ROOMS).encode())
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                answer = await reader.read()
            assert answer.count(b" 200 OK") <= 1
            assert b" 404 " not in answer  # a process answers 404 for a room that it does not have
            writer.close()
            with contextlib.suppress(ConnectionResetError):
                await writer.wait_closed()


async def test_connections_leave_no_descriptors_behind() -> None:
    def count(found: dict[int, int]) -> int:
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in found.values())

    async def some(process: Process) -> None:
        async def one(n: int) -> None:
            async with talk(process, f"room=r{n}&to=de") as client:
                await client.next()

        await asyncio.gather(*(one(n) for n in range(40)))

    async def main(process: Process) -> None:
        found = children(process)
        await some(process)
        await until(lambda: count(found) <= before)

    with workers() as process:
        await some(process)
        before = count(children(process)) + 2  # the test's own last connection may be closing
        await main(process)


async def test_removed_sockets_are_created_again_and_no_connection_is_refused() -> None:
    async def come(process: Process, room: str) -> None:
        async with talk(process, f"room={room}&from=en&to=de") as client:
            assert (await client.next())["room"] == room

    with workers() as process:
        found = sockets(process)
        folder = found[0][1].parent
        shutil.rmtree(folder)
        await asyncio.gather(*(come(process, room) for room in ROOMS for _ in range(CROWD)))
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        found[1][1].unlink()
        await asyncio.gather(*(come(process, ROOMS[1]) for _ in range(CROWD)))
        shutil.rmtree(folder)
        os.kill(found[1][0], signal.SIGKILL)  # the next worker finds no directory
        await until(lambda: children(process).get(1, found[1][0]) != found[1][0])
        await asyncio.gather(*(come(process, room) for room in ROOMS for _ in range(CROWD)))
        shown = await asyncio.to_thread(metrics, process)
        assert shown['gateway_up{worker="0"}'] == shown['gateway_up{worker="1"}'] == 1
        assert sum(value for name, value in shown.items() if 'how="refused"' in name) == 0
        assert "the socket of this worker was removed" in process.text
        process.popen.terminate()
        assert process.popen.wait(10) == 0


def test_a_worker_writes_its_stacks_at_sigusr1() -> None:
    with workers() as process:
        os.kill(children(process)[1], signal.SIGUSR1)
        while "most recent call first" not in process.text:
            assert process.popen.poll() is None
        assert set(children(process)) == {0, 1}
