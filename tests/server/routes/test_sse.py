"""Rooms as server-sent events, over real connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2 as httpx
import pytest

from gateway.auth.permissions import Role
from gateway.core.session.connect_request import ConnectRequest
from gateway.core.session.session import Session
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from tests.support.live import Live, running, until

SCRIPT = {("good morning", "de"): ["guten", " Morgen"], ("yes", "de"): ["ja"]}


class Stream:
    """A parser of server-sent events, as a browser's EventSource is one."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()
        self.last = ""

    async def event(self) -> dict[str, Any]:
        """Return the next event. Its ``kind`` is its name, or the type of its frame."""
        name, data = "", ""
        async for line in self._lines:
            field, _, value = line.partition(": ")
            if field == "id":
                self.last = value
            elif field == "event":
                name = value
            elif field == "data":
                data += value
            elif not line and data:
                return {**json.loads(data), **({"type": name} if name else {})}
        raise EOFError

    async def upto(self, kind: str) -> dict[str, Any]:
        while (event := await self.event())["type"] != kind:
            pass
        return event


@contextlib.asynccontextmanager
async def reader(live: Live, query: str = "to=de", **headers: str) -> AsyncIterator[Stream]:
    async with (
        httpx.AsyncClient(base_url=live.http) as http,
        http.stream("GET", f"/v1/rooms/demo/events?{query}", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield Stream(answer)


def say(live: Live, speaker: Session, text: str) -> None:
    live.hub.receive(speaker, text)


async def test_a_stream_has_the_same_events_as_a_socket() -> None:
    async with running(ScriptedEngine(SCRIPT)) as live, reader(live) as stream:
        welcome = await stream.event()
        assert (welcome["type"], welcome["room"]) == ("welcome", "demo")
        speaker = live.hub.open(ConnectRequest(room="demo", source="en"))
        say(live, speaker, "good morning")
        assert (await stream.upto("source"))["text"] == "good morning"
        assert (await stream.upto("delta"))["add"] == "guten"
        final = await stream.upto("final")
        assert final["text"] == "guten Morgen"
        assert stream.last == f"{welcome['epoch']}.{final['seq']}"


async def test_every_block_of_a_stream_has_data() -> None:
    async with running() as live, httpx.AsyncClient(base_url=live.http) as client:
        live.hub.open(ConnectRequest(room="demo"))
        async with client.stream("GET", "/v1/rooms/demo/events?to=de") as answer:
            text = ""
            async for piece in answer.aiter_text():
                text += piece
                if "\n\n" in text:
                    break
    first = text.split("\n\n")[0].split("\n")
    assert first[0].startswith("retry: ") and first[1].startswith('data: {"type":"welcome"')


async def test_a_stream_may_only_read_even_if_its_query_asks_for_more() -> None:
    async with running() as live, reader(live, "to=de&role=moderate&speaker=Eve") as stream:
        await stream.event()
        (session,) = live.hub.sessions.values()
        assert (session.member.role, session.member.speaker) == (Role.VIEW, None)


async def test_a_broken_stream_resumes_without_a_gap_or_a_duplicate() -> None:
    async with running(ScriptedEngine(SCRIPT)) as live:
        speaker = live.hub.open(ConnectRequest(room="demo", source="en"))
        async with reader(live) as stream:
            await stream.event()
            say(live, speaker, "good morning")
            await stream.upto("final")
            last = stream.last
        say(live, speaker, "yes")
        await until(lambda: live.hub.rooms["demo"].log.seq == 4)
        async with reader(live, **{"last-event-id": last}) as stream:
            welcome = await stream.event()
            assert welcome["resumed"] == {"ok": True, "replayed": 2}
            told = [await stream.event(), await stream.event()]
        assert [(event["type"], event["seq"], event["text"]) for event in told] == [
            ("source", 3, "yes"),
            ("final", 4, "ja"),
        ]


async def test_a_reader_that_disconnects_leaves_the_room() -> None:
    async with running() as live:
        async with reader(live) as stream:
            await stream.event()
            assert len(live.hub.rooms["demo"].subscribers.members) == 1
        await until(lambda: not live.hub.rooms["demo"].subscribers.members)
        assert not live.hub.sessions


async def test_a_stream_without_events_sends_ticks() -> None:
    async with running() as live, reader(live, "to=de&hb=1") as stream:
        assert "seq" in await stream.upto("tick")
        assert not stream.last


async def test_a_stream_ends_with_the_close_code_when_its_room_ends() -> None:
    async with running() as live, reader(live) as stream:
        await stream.event()
        await live.hub.forget("demo")
        assert (await stream.upto("close"))["code"] == 4410
        with pytest.raises(EOFError):
            await stream.event()


async def test_a_client_that_does_not_read_is_disconnected_and_holds_at_most_its_outbox() -> None:
    limits = Limits(outbox_bytes=20_000, inflight=500, rate=1e6, burst=1_000_000)
    async with running(limits=limits) as live, reader(live, "to=en") as stream:
        await stream.event()
        (session,) = live.hub.sessions.values()
        speaker = live.hub.open(ConnectRequest(room="demo", source="en"))
        while session.id in live.hub.sessions:
            say(live, speaker, "x" * 1900)
            assert session.outbox.bytes <= limits.outbox_bytes
            speaker.outbox.discard()
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/rooms/~x/events", 404), ("/v1/rooms/demo/events?view=none", 400)],
)
def test_a_bad_request_is_answered_with_a_status(live: Live, path: str, status: int) -> None:
    assert httpx.get(live.http + path).status_code == status
