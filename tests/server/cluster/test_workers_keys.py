"""Keys and tickets of several processes on one port."""

from __future__ import annotations

import asyncio
import os
import signal
import urllib.request
from pathlib import Path

import msgspec

from gateway.auth.api_keys import ApiKey, create_key
from gateway.errors import CloseCode
from tests.server.cluster.several import CROWD, ROOMS, children, talk, workers
from tests.support.live import until


async def test_a_key_or_ticket_for_one_room_leads_to_the_process_of_that_room(
    tmp_path: Path,
) -> None:
    file = tmp_path / "keys.toml"
    key = ApiKey(id="0" * 8, name="a", hash="0" * 64, rooms=("board",))
    shown, entry = create_key(key, "0" * 64)
    file.write_text(entry)
    with workers("--keys", str(file)) as process:
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


async def test_sighup_makes_every_worker_read_the_keys_again(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    shown, entry = create_key(ApiKey(id="0" * 8, name="a", hash="0" * 64), "0" * 64)
    file.write_text(entry)
    with workers("--keys", str(file)) as process:
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
        assert process.popen.poll() is None


async def test_a_restarted_worker_uses_the_keys_in_force_if_their_file_is_broken(
    tmp_path: Path,
) -> None:
    file = tmp_path / "keys.toml"
    both = [create_key(ApiKey(id=n * 8, name=n, hash="0" * 64), "0" * 64) for n in "01"]
    shown, entries = zip(*both, strict=True)
    file.write_text("\n".join(entries))
    with workers("--keys", str(file)) as process:
        first, second = ({"additional_headers": {"authorization": f"Bearer {k}"}} for k in shown)
        async with talk(process, f"room={ROOMS[0]}&to=de", **second) as client:
            await client.next()
            file.write_text(entries[0])
            assert (await client.closed())[0] == CloseCode.UNAUTHENTICATED
        await until(lambda: process.text.count("1 keys in") == 3)  # the parent has read it, too
        file.write_text("[[key")
        found = children(process)
        os.kill(found[1], signal.SIGKILL)
        await until(lambda: children(process).get(1, found[1]) != found[1])
        async with talk(process, f"room={ROOMS[1]}&to=de", **first) as client:
            assert (await client.next())["room"] == ROOMS[1]
            file.write_text("")
            assert (await client.closed())[0] == CloseCode.UNAUTHENTICATED
        async with talk(process, f"room={ROOMS[1]}&to=de", **second) as client:
            assert (await client.closed())[0] == CloseCode.UNAUTHENTICATED
        assert process.popen.poll() is None
