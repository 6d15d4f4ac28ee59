"""Every kind of connection, ended in every way, is freed by its reference counts.

The collector is off, so that what it would have to free is still there when it is asked. A new
route or close code fails a test until its connections are in the table. The loop is uvloop, which
the gateway uses wherever it runs: each connection of asyncio leaves a cycle of its transport.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gateway.auth.api_keys import ApiKey, Keyring, create_key
from gateway.auth.origin import AllowedHosts
from gateway.auth.permissions import Role
from gateway.engines.base.language_detection import Detector
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import CloseCode
from gateway.server.access.authenticator import Authenticator
from gateway.server.outputs import sender
from gateway.settings.catalogue import OutputTable, Settings
from gateway.storage.sqlite.store import build
from tests.end_to_end.connections import event_streams, requests, sockets
from tests.end_to_end.connections.kinds import KINDS, LIMITS, Gateway, Run
from tests.support.hearing import hearing
from tests.support.live import in_thread
from tests.support.receiver import Receiver
from tests.support.redis import RedisServer
from tests.support.talk import DEADLINE_S

TABLES = (sockets, event_streams, requests)
"""Modules with the rows of `KINDS`: a row is there once its module is imported."""
ROUNDS = 3
"""Connections of each kind, of which the one that leaves least counts. What happens once is no part
of them, such as an import, or another connection to Redis on a busy machine."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    named = {"speaker": Role.MODERATE, "viewer": Role.VIEW}
    made = [
        create_key(ApiKey(id=f"{n:08x}", name=name, hash="0" * 64, role=role), "ab" * 32)
        for n, (name, role) in enumerate(named.items())
    ]
    ring = Keyring("".join(entry for _, entry in made))
    access = Authenticator(LIMITS, keyring=ring, hosts=AllowedHosts(["x"]))
    engine = ScriptedEngine()
    with in_thread(engine, LIMITS, authenticator=access, loop=uvloop.new_event_loop) as live:
        stack = contextlib.AsyncExitStack()

        async def listen() -> None:
            await stack.enter_async_context(hearing(live))

        asyncio.run_coroutine_threadsafe(listen(), live.loop).result(DEADLINE_S)
        yield Gateway(live, engine, made[0][0], made[1][0])
        asyncio.run_coroutine_threadsafe(stack.aclose(), live.loop).result(DEADLINE_S)


def left(gateway: Gateway, run: Run) -> Counter[str]:
    """Return the types of the objects that one connection leaves to the collector."""
    # The gateway loads its detector in a thread, beside the first connections.
    Detector(gateway.live.engine.profile.sources).load()
    gc.collect()
    gc.disable()
    try:
        run(gateway)
        gateway.settle()
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        return min((made(gateway, run) for _ in range(ROUNDS)), key=Counter.total)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.collect()


def made(gateway: Gateway, run: Run) -> Counter[str]:
    gc.garbage.clear()
    run(gateway)
    gateway.settle()
    gc.collect()
    return Counter(type(one).__name__ for one in gc.garbage)


@pytest.mark.parametrize("name", KINDS)
def test_a_connection_that_has_ended_leaves_nothing_to_the_garbage_collector(
    gateway: Gateway, name: str
) -> None:
    assert not left(gateway, KINDS[name].run)


def said(gateway: Gateway) -> None:
    client = gateway.welcome("to=de&room=kept")
    client.frame("good morning")
    client.until(b'"final"')
    client.close()


def lost(gateway: Gateway) -> None:
    client = gateway.welcome("to=de,fr&room=kept")
    client.frame("good morning")
    client.until(b'"source"')
    client.abort()


@contextlib.contextmanager
def part(name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield options of `running` with a part of the gateway that refers to rooms."""
    match name:
        case "store":
            yield {"store": build(Settings(store=f"sqlite:{folder}/rooms.db"))}
        case "fleet":
            with RedisServer(folder) as redis:
                yield {"settings": Settings(redis=redis.url)}
        case _:
            yield {}


@pytest.mark.parametrize("run", [said, lost])
@pytest.mark.parametrize("name", ["store", "fleet", "output"])
def test_a_room_that_has_ended_leaves_nothing_to_the_garbage_collector(
    name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "IDLE_S", 0.01)
    engine = ScriptedEngine()
    with (
        part(name, tmp_path) as options,
        in_thread(engine, LIMITS, loop=uvloop.new_event_loop, **options) as live,
    ):
        gateway = Gateway(live, engine, "", "")
        if name == "output":
            receiver = Receiver()
            asyncio.run_coroutine_threadsafe(receiver.start(), live.loop).result(DEADLINE_S)
            table = OutputTable(kind="webhook", url=receiver.url, room="*", to="fr")
            gateway.call(lambda: live.state.outputs.add((table,)))
        garbage = left(gateway, run)
        if name == "output":
            asyncio.run_coroutine_threadsafe(receiver.stop(), live.loop).result(DEADLINE_S)
    assert not garbage


def test_every_route_is_in_the_table(gateway: Gateway) -> None:
    assert {row.route for row in KINDS.values()} == gateway.routes


def test_every_close_code_is_in_the_table() -> None:
    seen = {code for row in KINDS.values() for code in row.codes}
    assert seen == set(CloseCode) - {CloseCode.GOAWAY}, "that one ends the gateway"
