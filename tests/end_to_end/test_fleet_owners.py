"""Speakers whose room has moved to another gateway, or to the next process, keep their
utterances.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.limits import Limits
from gateway.settings.catalogue import Settings
from gateway.storage.sqlite.store import SqliteStore
from tests.support.live import Live, running, until
from tests.support.redis import RedisServer
from tests.support.talk import Talk, talk


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        yield server


async def said(speaker: Talk, *ids: str) -> dict[str, Any]:
    """Say something under some ids, and return the welcome."""
    welcome = await speaker.next()
    for id in ids:
        await speaker.send({"type": "say", "id": id, "text": "good morning"})
        await speaker.until("final")
    return welcome


async def corrects(live: Live, welcome: dict[str, Any]) -> None:
    """Come back, edit ``a`` and retract ``b``."""
    query = f"?resume={welcome['resume']}&epoch={welcome['epoch']}&seq=4&to=de"
    async with talk(live, query) as speaker:
        await speaker.next()
        await speaker.send({"type": "edit", "id": "a", "lang": "de", "text": "Moin"})
        assert (await speaker.until("edited"))[-1]["text"] == "Moin"
        await speaker.send({"type": "retract", "id": "b"})
        assert (await speaker.until("retracted"))[-1]["id"] == "b"
    async with talk(live, "?room=r&to=de") as other:
        await other.next()
        await other.send({"type": "retract", "id": "a"})
        assert (await other.until("error"))[-1]["code"] == "forbidden"


async def test_a_speaker_corrects_what_it_said_before_its_room_has_moved(
    redis: RedisServer,
) -> None:
    settings = Settings(redis=redis.url)
    async with running(settings=settings) as one, running(settings=settings) as two:
        async with talk(one, "?room=r&to=de") as speaker, talk(two, "?room=r") as reader:
            await reader.next()
            welcome = await said(speaker, "a", "b")
            owner, heir = (one, two) if "r" in one.shared.authorities else (two, one)
            drain = asyncio.create_task(owner.hub.drain(5.0))
            await until(lambda: "r" in heir.shared.authorities)
            await drain
        await corrects(heir, welcome)


async def test_a_speaker_corrects_what_it_said_before_a_restart_with_a_store(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rooms.db"
    async with running(store=SqliteStore(path, Limits())) as live:
        async with talk(live, "?room=r&to=de") as speaker:
            welcome = await said(speaker, "a", "b")
    async with running(store=SqliteStore(path, Limits())) as live:
        await corrects(live, welcome)
