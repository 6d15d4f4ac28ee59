"""Ends of several processes on one port: of all or of one, by a signal or by force."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from gateway.errors import CloseCode
from tests.server.cluster.several import ROOMS, children, sockets, talk, there, workers
from tests.support.live import until
from tests.support.talk import Talk

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")


async def test_a_killed_worker_loses_its_own_rooms_only_and_is_started_again() -> None:
    with workers() as process:
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
        assert "worker 1 ended with status -9" in process.text
        process.popen.terminate()
        assert process.popen.wait(10) == 0


async def test_with_a_store_rooms_survive_the_end_of_their_worker(tmp_path: Path) -> None:
    with workers("--store", f"sqlite:{tmp_path / 'rooms.db'}") as process:
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


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_the_parent_lets_the_captions_of_all_workers_finish(
    sign: signal.Signals,
) -> None:
    with workers("--scripted-pace", "0.05") as process:
        found = children(process)
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
        assert process.popen.wait(10) == 0
        assert not there(found)
    assert "Traceback" not in process.text


async def test_a_service_manager_that_signals_every_process_does_not_hasten_the_end() -> None:
    with workers("--scripted-pace", "0.05") as process:
        async with talk(process, "from=en&to=de") as client:
            await client.send("one two three four five six")
            await client.until("delta")
            for pid in (*children(process).values(), process.popen.pid):
                os.kill(pid, signal.SIGTERM)
            assert (await client.until("final"))[-1]["text"].endswith("six")
        assert process.popen.wait(10) == 0


async def test_workers_whose_parent_is_killed_drain_and_end() -> None:
    with workers("--scripted-pace", "0.05") as process:
        found = children(process)
        folder = sockets(process)[0][1].parent
        async with talk(process, "from=en&to=de") as client:
            await client.send("one two three four five six")
            await client.until("delta")
            process.popen.kill()
            assert (await client.until("final"))[-1]["text"].endswith("six")
            assert (await client.closed())[0] == CloseCode.GOAWAY
        await until(lambda: not there(found))
        assert not folder.exists()


async def test_no_files_are_left_if_a_worker_and_its_supervisor_are_killed() -> None:
    with workers() as process:
        found = children(process)
        folder = sockets(process)[0][1].parent
        os.kill(found[1], signal.SIGSTOP)  # or it might notice in time that its parent is gone
        process.popen.kill()
        os.kill(found[1], signal.SIGKILL)
        assert (folder / "1.sock").is_socket()
        await until(lambda: not there(found))
        assert not folder.exists()
