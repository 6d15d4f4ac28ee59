"""Tests of `deploy/haproxy` with a real HAProxy and real gateways."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.ports import free_port
from gateway.server.runtime import drain
from gateway.server.runtime.hub import HubPhase
from gateway.settings.catalogue import Settings
from tests.support.live import Live
from tests.support.reverse_proxy import (
    DEPLOY,
    Certificate,
    Site,
    accepts,
    program,
    said,
    started,
)

CONFIGURATION = DEPLOY / "haproxy" / "haproxy.cfg"
PATIENT_DEFAULTS = "defaults\n    timeout check 20s\n"


@dataclass
class HAProxy(Site):
    """A running HAProxy, with three gateways and one of the pool for English and Japanese."""

    command: list[str]
    environment: dict[str, str]
    process: subprocess.Popen[bytes]
    east: Live

    async def translate(self, path: str = "/v1/translate", **request: Any) -> Live:
        """Translate a text, and return the gateway that did.

        :param request: arguments of the HTTP client's method
        """
        everybody = [*self.gateways, self.east]
        before = [one.hub.jobs.chunks for one in everybody]
        async with self.http() as client:
            answer = await client.post(path, **request)
            assert answer.status_code == 200, answer.text
        after = [one.hub.jobs.chunks for one in everybody]
        changed = [one for one, a, b in zip(everybody, before, after, strict=True) if a != b]
        assert len(changed) == 1
        return changed[0]

    async def servers(self, backend: str) -> dict[str, str]:
        """Return the state of each server of a backend, from the runtime API."""
        try:
            reader, writer = await asyncio.open_unix_connection(self.environment["HAPROXY_SOCKET"])
        except OSError:  # HAProxy opens its ports first
            return {}
        writer.write(b"show stat\n")
        shown = (await reader.read()).decode()
        writer.close()
        rows = [line.split(",") for line in shown.splitlines()]
        return {
            row[1]: row[17].split()[0]
            for row in rows
            if row[0] == backend and row[1] not in ("BACKEND", "FRONTEND")
        }

    async def wait(self, backend: str, **states: str) -> None:
        """Wait until servers of a backend have these states."""
        while states.items() - (await self.servers(backend)).items():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.fixture
async def haproxy(tls: Certificate, gateways: list[Live], folder: Path) -> AsyncIterator[HAProxy]:
    """Run HAProxy with the configuration of `deploy/`; all its servers are up."""
    port = free_port()
    one, two, three, east = (live.http.removeprefix("http://") for live in gateways)
    environment = {
        "CAPTIONS_BIND": f"127.0.0.1:{port}",
        "CAPTIONS_CERTIFICATE": str(tls.both),
        "CAPTIONS_PAIRS": str(CONFIGURATION.with_name("pairs.map")),
        "HAPROXY_SOCKET": str(folder / "admin.sock"),
        "GATEWAY_ONE": one,
        "GATEWAY_TWO": two,
        "GATEWAY_THREE": three,
        "EAST_ONE": east,
    }
    # A machine of CI stops for seconds, in which no gateway answers a check of half a second.
    patient = folder / "haproxy.cfg"
    patient.write_text(CONFIGURATION.read_text().replace("defaults\n", PATIENT_DEFAULTS, 1))
    command = [program("haproxy"), "-f", str(patient)]
    async with started(command, port, environment) as process:
        made = HAProxy(port, tls, gateways[:3], command, environment, process, gateways[3])
        for backend in ("gateways", "rooms"):
            await made.wait(backend, one="UP", two="UP", three="UP")
        await made.wait("east", one="UP")
        yield made


async def test_all_sockets_of_a_room_reach_one_gateway_and_rooms_are_spread(
    haproxy: HAProxy,
) -> None:
    rooms = [f"meeting-{n}" for n in range(30)]
    async with contextlib.AsyncExitStack() as stack:
        for room in rooms * 2:
            await stack.enter_async_context(haproxy.connect(room))
        homes = Counter(id(haproxy.home(room)) for room in rooms)
        for room in rooms:
            assert sum(room in one.hub.rooms for one in haproxy.gateways) == 1
    assert len(homes) == 3, "every gateway has some"
    assert not haproxy.east.hub.rooms


async def test_requests_about_a_room_reach_the_gateway_of_its_sockets(haproxy: HAProxy) -> None:
    async with haproxy.http() as client:
        for n in range(10):
            async with haproxy.connect(f"meeting-{n}") as socket:
                await said(socket)
                answer = await client.get(f"/v1/rooms/meeting-{n}/transcript.txt?lang=de")
                assert answer.status_code == 200


async def test_a_gateway_that_drains_gets_no_new_rooms_and_the_others_keep_theirs(
    haproxy: HAProxy,
) -> None:
    rooms = [f"meeting-{n}" for n in range(30)]
    async with contextlib.AsyncExitStack() as stack:
        for room in rooms:
            await stack.enter_async_context(haproxy.connect(room))
        before = {room: haproxy.home(room) for room in rooms}
    draining = haproxy.gateways[1]
    task = asyncio.create_task(draining.hub.drain(5))
    await haproxy.wait("gateways", two="DOWN")
    await haproxy.wait("rooms", two="DOWN")
    async with contextlib.AsyncExitStack() as stack:
        for room in rooms:
            await stack.enter_async_context(haproxy.connect(f"{room}"))
        for room in rooms:
            home = next(
                one
                for one in haproxy.gateways
                if one is not draining
                and any(s.room.name == room for s in one.hub.sessions.values())
            )
            assert before[room] in (home, draining), "only its rooms have moved"
    await task


EN_JA = {"source_lang": "en", "target_lang": "ja"}
DEEPL = {"text": ["good morning"], "source_lang": "EN", "target_lang": "JA"}
LIBRE = {"q": "good morning", "source": "en", "target": "ja"}
MESSAGES = [{"role": "user", "content": "good morning"}]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("path", "request_of_pair"),
    [
        ("/v1/translate", {"json": {"text": "good morning", **EN_JA}}),
        ("/v1/translate", {"data": {"text": "good morning", **EN_JA}}),
        ("/v1/translate", {"params": {"text": "good morning", **EN_JA}}),
        # A form may be declared where JSON is sent: curl -d does it.
        (
            "/v1/translate",
            {"content": msgspec.json.encode({"text": "good morning", **EN_JA}), "headers": FORM},
        ),
        *(
            (
                "/v1/translate",
                {"json": {"text": "good morning", "source_lang": tag, "target_lang": "ja"}},
            )
            for tag in ("en-GB", "en_GB", "EN")
        ),
        ("/v2/translate", {"json": DEEPL}),
        ("/v2/translate", {"data": DEEPL}),
        ("/translate", {"json": LIBRE}),
        ("/translate", {"data": LIBRE}),
        ("/translate", {"params": LIBRE}),
        (
            "/v1/chat/completions",
            {"json": {"model": "translate-en_GB-to-ja", "messages": MESSAGES}},
        ),
        (
            "/v1/chat/completions",
            {"json": {"model": "translate-ja", "source_lang": "en", "messages": MESSAGES}},
        ),
        (
            "/v1/chat/completions",
            {"json": {"model": "gpt-4o", "messages": MESSAGES, **EN_JA}},
        ),
    ],
)
async def test_a_text_is_translated_by_the_pool_of_its_language_pair(
    haproxy: HAProxy, path: str, request_of_pair: dict[str, Any]
) -> None:
    assert await haproxy.translate(path, **request_of_pair) is haproxy.east


@pytest.mark.parametrize(
    ("path", "other_request"),
    [
        ("/v1/translate", {"json": {"text": "good", "source_lang": "en", "target_lang": "de"}}),
        # Nobody but a gateway detects a language, or reads a multipart form.
        ("/translate", {"json": {"q": "good morning to all of you", "target": "ja"}}),
        ("/translate", {"files": {name: (None, value) for name, value in LIBRE.items()}}),
        # The gateway ignores the query where the body is JSON.
        (
            "/translate?source=en&target=ja",
            {"json": {"q": "good morning", "source": "en", "target": "de"}},
        ),
        # A name of the other API is no language of this one.
        ("/translate", {"json": {**LIBRE, "target": "de", **EN_JA}}),
        # The model states the target, whatever the field says.
        (
            "/v1/chat/completions",
            {"json": {"model": "translate-en-to-de", "messages": MESSAGES, **EN_JA}},
        ),
        # HAProxy sees the first 16 KiB, and here the languages stand behind them.
        (
            "/v1/translate",
            {"json": {"context": "c" * 2_000, "padding": " " * 20_000, "text": "good", **EN_JA}},
        ),
    ],
)
async def test_a_text_whose_pair_has_no_pool_or_cannot_be_read_goes_to_any_gateway(
    haproxy: HAProxy, path: str, other_request: dict[str, Any]
) -> None:
    assert await haproxy.translate(path, **other_request) in haproxy.gateways


async def test_a_pool_that_is_down_is_replaced_by_the_other_gateways(haproxy: HAProxy) -> None:
    task = asyncio.create_task(haproxy.east.hub.drain(1))
    await haproxy.wait("east", one="DOWN")
    text = "good morning, what fine weather 良い天気"
    assert await haproxy.translate(json={"text": text, **EN_JA}) in haproxy.gateways
    await task


async def test_no_request_is_lost_when_the_only_gateway_of_a_pool_is_stopped(
    haproxy: HAProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # HAProxy has to see the end of the gateway in time, also if the machine stops for seconds.
    monkeypatch.setattr(drain, "OVERLAP_S", 5.0)
    statuses: Counter[int] = Counter()
    jobs_before = haproxy.east.hub.jobs.chunks

    async def client() -> None:
        async with haproxy.http() as http:
            sent, after = 0, 0
            while after < 25:
                answer = await http.post("/v1/translate", json={"text": "good morning", **EN_JA})
                statuses[answer.status_code] += 1
                sent += 1
                if sent == 10:
                    haproxy.east.server.should_exit = True  # as SIGTERM does
                after += haproxy.east.hub.phase is HubPhase.CLOSED

    await asyncio.gather(client(), client())
    assert statuses.keys() == {200}
    assert haproxy.east.hub.jobs.chunks > jobs_before, "the pool had the first ones"


async def test_sockets_survive_a_reload_of_the_proxy(haproxy: HAProxy, folder: Path) -> None:
    async with haproxy.connect("meeting") as old:
        await said(old, "before")
        command = [*haproxy.command, "-sf", str(haproxy.process.pid)]
        async with started(command, haproxy.port, haproxy.environment) as process:
            await haproxy.wait("rooms", one="UP", two="UP", three="UP")
            await accepts(haproxy.port, process)
            async with haproxy.connect("meeting"):
                home = haproxy.home("meeting")
                assert home is not None
                assert len(home.hub.sessions) == 2, "old and new sockets are in one room"
            assert "final" in await said(old, "after")


async def test_the_address_of_the_client_is_set_and_not_appended(haproxy: HAProxy) -> None:
    async with haproxy.http() as client:
        answer = await client.get("/healthz", headers={"X-Forwarded-For": "203.0.113.9"})
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
    assert "set-header X-Forwarded-For %[src]" in CONFIGURATION.read_text()


def test_a_silent_socket_outlives_the_pings_of_the_gateway() -> None:
    seconds = re.search(r"timeout tunnel +(\d+)s", CONFIGURATION.read_text())
    assert seconds is not None
    assert int(seconds[1]) > 2 * Settings().ping_s
