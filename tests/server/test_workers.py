"""Several processes on one port: a room is in one of them, and nobody notices which."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from websockets.asyncio.client import connect

from gateway.errors import CloseCode
from gateway.keys import Key, made
from gateway.messages import PRIVATE
from gateway.pin import owner
from gateway.server.workers import check
from gateway.settings import Settings, SettingsError
from tests.live import until
from tests.server.started import PASS, SCRIPTED, Process, gateway
from tests.talk import Talk

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")

CROWD = 16
"""Sockets of which some are accepted by either process: all by one is one case in 32,768."""

ROOMS = [next(r for n in range(99) if owner(r := f"r{n}", (0, 1)) == m) for m in (0, 1)]
"""A room of each worker."""


def workers(*flags: str, count: int = 2) -> contextlib.AbstractContextManager[Process]:
    return gateway(*SCRIPTED, "--workers", str(count), "--scripted-pace", "0.01", *flags)


def run(process: Process, main: Callable[[Process], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(50):
            await main(process)

    asyncio.run(bounded())


@contextlib.asynccontextmanager
async def talk(process: Process, query: str, **options: Any) -> AsyncIterator[Talk]:
    url = f"ws://127.0.0.1:{process.port}/v1/ws?{query}"
    async with connect(url, max_size=None, **options) as ws:
        yield Talk(ws)


def get(process: Process, path: str, method: str = "GET") -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{process.port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=10) as page:
        body: bytes = page.read()
    return body.decode()


def metrics(process: Process) -> dict[str, float]:
    """By name and labels, as they stand."""
    lines = get(process, "/metrics").splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def children(process: Process) -> dict[int, int]:
    """The workers' processes, by number."""
    return {number: pid for number, (pid, _) in sockets(process).items()}


def sockets(process: Process) -> dict[int, tuple[int, Path]]:
    """The workers' processes and their sockets, by number."""
    found = {}
    parent = Path(f"/proc/{process.popen.pid}/task/{process.popen.pid}")
    for pid in (parent / "children").read_text().split():
        with contextlib.suppress(OSError):  # it ends meanwhile
            for path in listening(Path(f"/proc/{pid}")):
                number = re.fullmatch(r".*/gateway-\w+/(\d+)\.sock", path)
                if number:
                    found[int(number[1])] = (int(pid), Path(path))
    return found


def listening(process: Path) -> list[str]:
    """The Unix sockets of a worker, by name."""
    if b"gateway.server.worker" not in (process / "cmdline").read_bytes():
        return []
    files = {os.readlink(one) for one in (process / "fd").iterdir() if one.is_symlink()}
    rows = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    return [row[7] for row in rows if len(row) == 8 and f"socket:[{row[6]}]" in files]


async def seen(query: str, process: Process, finals: int, ready: asyncio.Event) -> tuple[Any, ...]:
    """What a reader is told until so many captions ended."""
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


def test_everybody_in_a_room_is_told_the_same_whoever_accepted_the_socket() -> None:
    async def main(process: Process) -> None:
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
        sent = [found[f'gateway_handover_total{{worker="{n}",how="sent"}}'] for n in (0, 1)]
        taken = [found[f'gateway_handover_total{{worker="{n}",how="taken"}}'] for n in (0, 1)]
        assert sent == taken[::-1] and sum(sent) > 0
        said = [found[f'gateway_utterances_total{{worker="{n}"}}'] for n in (0, 1)]
        assert sum(said) == 18

    with workers() as process:
        run(process, main)
        process.popen.terminate()
        assert process.popen.wait(10) == 0
    assert "Traceback" not in process.text


def test_a_resumed_socket_comes_back_to_its_own_room_with_nothing_but_its_token() -> None:
    async def main(process: Process) -> None:
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

    with workers() as process:
        run(process, main)


def test_a_key_or_a_ticket_for_one_room_leads_there(tmp_path: Path) -> None:
    async def main(process: Process) -> None:
        bearer = {"additional_headers": {"authorization": f"Bearer {shown}"}}
        body = msgspec.json.encode({"room": "board"})
        for _ in range(CROWD):
            async with (
                talk(process, "from=en&to=de", **bearer) as one,
                talk(process, "from=en&to=de", **bearer) as two,
            ):
                assert (await one.next())["room"] == (await two.next())["room"] == "board"
            request = urllib.request.Request(
                f"http://127.0.0.1:{process.port}/v1/tickets",
                body,
                {"authorization": f"Bearer {shown}"},
            )
            with await asyncio.to_thread(urllib.request.urlopen, request) as page:
                ticket = msgspec.json.decode(page.read())["ticket"]
            async with talk(process, f"ticket={ticket}&to=de") as three:
                assert (await three.next())["room"] == "board"
            async with talk(process, f"ticket={ticket}&to=de") as four:  # once is once
                assert (await four.closed())[0] == CloseCode.UNAUTHENTICATED

    file = tmp_path / "keys.toml"
    key = Key(id="0" * 8, name="a", hash="0" * 64, rooms=("board",))
    shown, entry = made(key, "0" * 64)
    file.write_text(entry)
    with workers("--keys", str(file)) as process:
        run(process, main)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str) -> bytes:
    """One request of a connection that stays open."""
    writer.write(f"{line} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    body = await reader.readexactly(int(length[1])) if length else b""
    return head.split(b" ")[1] + b" " + body


def test_one_connection_asks_for_rooms_of_different_processes() -> None:
    async def main(process: Process) -> None:
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

    with workers() as process:
        run(process, main)


def test_a_request_sent_ahead_of_an_answer_is_not_served_by_the_wrong_process() -> None:
    async def main(process: Process) -> None:
        for room in ROOMS:
            async with talk(process, f"room={room}&to=de") as client:
                await client.send("something")
                await client.until("final")
        line = "GET /v1/rooms/{}/transcript.txt HTTP/1.1\r\nhost: localhost\r\n\r\n"
        for _ in range(CROWD):  # of some the first request is handed over, too
            reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
            writer.write("".join(line.format(room) for room in ROOMS).encode())
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                answer = await reader.read()
            assert answer.count(b" 200 OK") <= 1
            assert b" 404 " not in answer  # so says a process of a room that it does not have
            writer.close()
            with contextlib.suppress(ConnectionResetError):
                await writer.wait_closed()

    with workers() as process:
        run(process, main)


def test_a_worker_that_is_killed_takes_its_own_rooms_along_and_comes_back() -> None:
    async def main(process: Process) -> None:
        found = children(process)
        assert set(found) == {0, 1}
        async with (
            talk(process, f"room={ROOMS[0]}&from=en&to=de") as stays,
            talk(process, f"room={ROOMS[1]}&from=en&to=de") as falls,
        ):
            await stays.next()
            welcome = await falls.next()
            os.kill(found[1], signal.SIGKILL)
            assert (await falls.closed())[0] == 1006
            await stays.send("still here")
            await stays.until("final")
            # It waits for the process that has its room, or is sent away with 503.
            async for ws in connect(
                f"ws://127.0.0.1:{process.port}/v1/ws?resume={welcome['resume']}&to=de"
            ):
                client = Talk(ws)
                again = await client.next()
                assert (again["room"], again["session"]) == (ROOMS[1], welcome["session"])
                assert again["epoch"] != welcome["epoch"]
                await client.send("here again")
                await client.until("final")
                await ws.close()
                break
        again_found = children(process)
        assert again_found[0] == found[0] and again_found[1] != found[1]

    with workers() as process:
        run(process, main)
        assert "worker 1 ended with status -9" in process.text
        process.popen.terminate()
        assert process.popen.wait(10) == 0


def there(found: dict[int, int]) -> bool:
    """Whether any of these processes is."""
    return any(os.path.exists(f"/proc/{pid}") for pid in found.values())


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_parent_lets_the_captions_of_all_workers_finish(
    sign: signal.Signals,
) -> None:
    async def main(process: Process) -> None:
        async with (
            talk(process, f"room={ROOMS[0]}&from=en&to=de") as one,
            talk(process, f"room={ROOMS[1]}&from=en&to=de") as two,
        ):
            for client in (one, two):
                await client.send("one two three four five six")
                await client.until("delta")
            os.killpg(process.popen.pid, sign)
            for client in (one, two):
                assert (await client.until("final"))[-1]["text"].endswith("six")
                assert (await client.closed())[0] == CloseCode.GOAWAY

    with workers("--scripted-pace", "0.05") as process:
        found = children(process)
        run(process, main)
        assert process.popen.wait(10) == 0
        assert not there(found)
    assert "Traceback" not in process.text


def test_a_service_manager_that_signals_every_process_does_not_hasten_the_end() -> None:
    async def main(process: Process) -> None:
        async with talk(process, "from=en&to=de") as client:
            await client.send("one two three four five six")
            await client.until("delta")
            for pid in (*children(process).values(), process.popen.pid):
                os.kill(pid, signal.SIGTERM)
            assert (await client.until("final"))[-1]["text"].endswith("six")

    with workers("--scripted-pace", "0.05") as process:
        run(process, main)
        assert process.popen.wait(10) == 0


def test_workers_whose_parent_is_killed_drain_and_end() -> None:
    async def main(process: Process) -> None:
        async with talk(process, "from=en&to=de") as client:
            await client.send("one two three four five six")
            await client.until("delta")
            process.popen.kill()
            assert (await client.until("final"))[-1]["text"].endswith("six")
            assert (await client.closed())[0] == CloseCode.GOAWAY
        await until(lambda: not there(found))
        assert not folder.exists()

    with workers("--scripted-pace", "0.05") as process:
        found = children(process)
        folder = sockets(process)[0][1].parent
        run(process, main)


def test_nothing_is_left_in_the_file_system_where_a_worker_is_killed_with_its_parent() -> None:
    async def main(process: Process) -> None:
        await until(lambda: not there(found))
        assert not folder.exists()

    with workers() as process:
        found = children(process)
        folder = sockets(process)[0][1].parent
        os.kill(found[1], signal.SIGSTOP)  # or it might notice in time that its parent is gone
        process.popen.kill()
        os.kill(found[1], signal.SIGKILL)
        assert (folder / "1.sock").is_socket()
        run(process, main)


def test_connections_leave_no_descriptors_behind() -> None:
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
        run(process, some)
        before = count(children(process)) + 2  # the test's own last connection may be closing
        run(process, main)


def test_what_is_for_one_process_only_is_refused_by_a_sentence(tmp_path: Path) -> None:
    several = Settings(workers=2, engine="openai")
    check(several)
    for other, why in (
        (replace(several, engine="ctranslate2"), "of its own"),
        (replace(several, engine="vllm"), "of its own"),
        (replace(several, certfile="cert.pem"), "encrypted"),
        (replace(several, lan=True), "--lan"),
    ):
        with pytest.raises(SettingsError, match=why):
            check(other)


def test_a_port_in_use_is_a_sentence_and_status_1() -> None:
    with workers() as first, gateway(*SCRIPTED[:-1], str(first.port), "--workers", "2") as second:
        assert second.popen.wait(10) == 1
        assert f"127.0.0.1:{first.port}" in second.text and "Traceback" not in second.text


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        (("--engine", "scripted", "--keys", "/nowhere/keys.toml"), 2),
        (("--engine", "scripted", "--store", "somewhere"), 2),
        (("--engine", "scripted", "--store", "sqlite:/nowhere/rooms.db"), 1),
        (("--engine", "openai"), 1),
        (("--engine", "openai", "--openai-url", "http://127.0.0.1:1/v1"), 1),
        (("--engine", "openai", "--openai-url", "http://127.0.0.1:1/v1", "--profile", "x"), 1),
    ],
)
def test_what_keeps_the_workers_from_starting_is_said_once_and_as_one_process_says_it(
    flags: tuple[str, ...], status: int
) -> None:
    def said(*more: str) -> list[str]:
        with gateway("--port", "FREE", "--log-level", "warning", *flags, *more) as process:
            assert process.popen.wait(20) == status
        return [line for line in process.said if not line.startswith("Starting ")]

    assert said() == said("--workers", "3")


def test_sockets_that_somebody_removed_are_made_again_and_nobody_is_refused() -> None:
    async def come(process: Process, room: str) -> None:
        async with talk(process, f"room={room}&from=en&to=de") as client:
            assert (await client.next())["room"] == room

    async def main(process: Process) -> None:
        found = sockets(process)
        folder = found[0][1].parent
        shutil.rmtree(folder)
        await asyncio.gather(*(come(process, room) for room in ROOMS for _ in range(CROWD)))
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        found[1][1].unlink()
        await asyncio.gather(*(come(process, ROOMS[1]) for _ in range(CROWD)))
        shutil.rmtree(folder)
        os.kill(found[1][0], signal.SIGKILL)  # the next one finds no directory
        await until(lambda: children(process).get(1, found[1][0]) != found[1][0])
        await asyncio.gather(*(come(process, room) for room in ROOMS for _ in range(CROWD)))
        shown = await asyncio.to_thread(metrics, process)
        assert shown['gateway_up{worker="0"}'] == shown['gateway_up{worker="1"}'] == 1
        assert sum(value for name, value in shown.items() if 'how="refused"' in name) == 0

    with workers() as process:
        run(process, main)
        assert "somebody removed a worker's socket" in process.text
        process.popen.terminate()
        assert process.popen.wait(10) == 0


def test_a_worker_says_where_its_threads_are_when_it_is_asked() -> None:
    with workers() as process:
        os.kill(children(process)[1], signal.SIGUSR1)
        while "most recent call first" not in process.text:
            assert process.popen.poll() is None
        assert set(children(process)) == {0, 1}


def test_rooms_outlive_a_worker_that_ends_where_there_is_a_store(tmp_path: Path) -> None:
    async def main(process: Process) -> None:
        room = ROOMS[1]
        async with talk(process, f"room={room}&from=en&to=de") as client:
            welcome = await client.next()
            await client.send("one two three")
            await client.until("final")
            os.kill(children(process)[1], signal.SIGTERM)
            await client.until("goaway")
            await client.closed()
        async for ws in connect(
            f"ws://127.0.0.1:{process.port}/v1/ws"
            f"?resume={welcome['resume']}&epoch={welcome['epoch']}&seq={welcome['seq']}&to=de"
        ):
            again = await Talk(ws).next()
            assert (again["room"], again["resumed"]["ok"]) == (room, True)
            await ws.close()
            break

    with workers("--store", f"sqlite:{tmp_path / 'rooms.db'}") as process:
        run(process, main)


def test_a_hangup_of_the_parent_has_every_worker_read_the_keys_again(tmp_path: Path) -> None:
    async def main(process: Process) -> None:
        options = {"additional_headers": {"authorization": f"Bearer {shown}"}}
        async with (
            talk(process, f"room={ROOMS[0]}&to=de", **options) as one,
            talk(process, f"room={ROOMS[1]}&to=de", **options) as two,
        ):
            for client in (one, two):
                await client.next()
            before = file.stat()
            file.write_text(entry.replace(shown[4:12], "ffffffff"))
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # not to be told by looking
            process.popen.send_signal(signal.SIGHUP)
            for client in (one, two):
                assert (await client.closed())[0] == CloseCode.UNAUTHENTICATED

    file = tmp_path / "keys.toml"
    shown, entry = made(Key(id="0" * 8, name="a", hash="0" * 64), "0" * 64)
    file.write_text(entry)
    with workers("--keys", str(file)) as process:
        run(process, main)
        assert process.popen.poll() is None


def test_workers_share_a_socket_that_was_passed() -> None:
    async def main(process: Process) -> None:
        for room in ROOMS:
            async with talk(process, f"room={room}&from=en&to=de") as client:
                assert (await client.next())["room"] == room
                await client.send("one two")
                await client.until("final")

    with socket.create_server(("127.0.0.1", 0)) as passed:
        program = (sys.executable, "-c", PASS, str(passed.fileno()))
        with gateway(
            *("--engine", "scripted", "--workers", "2"),
            program=program,
            pass_fds=(passed.fileno(),),
            port=passed.getsockname()[1],
        ) as process:
            run(process, main)
            process.popen.terminate()
            assert process.popen.wait(10) == 0
