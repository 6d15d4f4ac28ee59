"""Retracted text, looked for everywhere: in answers, transcripts, files and Redis.

The texts are found by the types of the fields of ``say``, so a new field is looked for too.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2 as httpx

from gateway.core.transcripts.formats import text_formats
from gateway.limits import Limits
from gateway.protocol.messages import Say
from gateway.protocol.personal import personal_fields
from gateway.settings.catalogue import Settings
from gateway.storage.sqlite.store import SqliteStore
from tests.support.live import Live, running
from tests.support.redis import RedisServer
from tests.support.talk import talk

WORDS = {name: f"Quokka {name} 東京" for name in personal_fields(Say)}
"""A text for each personal field of ``say``, with a word that nothing else contains."""
KEPT = "harmless"
"""Text of another utterance, which stays."""


def found(data: bytes | str) -> bool:
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    # JSON may write the characters as escapes, so the Latin word is enough.
    return "quokka" in text.casefold() or "akkouq" in text.casefold()


async def say_and_retract(live: Live) -> list[dict[str, Any]]:
    """Say every personal field in one utterance, edit it, retract it; return the sent texts."""
    async with talk(live, "?room=r&from=en&to=de,fr&role=moderate") as speaker:
        await speaker.next()
        await speaker.send({"type": "say", "id": "a", **WORDS})
        heard = await speaker.until("final") + await speaker.until("final")
        await speaker.send({"type": "edit", "id": "a", "lang": "de", "text": "Quokka edited"})
        heard += await speaker.until("edited")
        await speaker.send({"type": "say", "id": "b", "text": KEPT})
        await speaker.until("final")
        await speaker.until("final")
        await speaker.send({"type": "retract", "id": "a"})
        await speaker.until("retracted")
    return heard


async def shown(live: Live) -> list[str]:
    """Return everything that a gateway shows of the room to somebody who comes now."""
    texts = []
    async with talk(live, "?room=r&to=de,fr,it&role=view") as late:
        events = await late.until("final") + await late.until("final")
        await late.send({"type": "get", "id": "a"})
        events.append((await late.until("error"))[-1])
        await late.send({"type": "sync", "epoch": events[0]["epoch"], "seq": 0})
        events += await late.until("synced")
        texts.append(json.dumps(events, ensure_ascii=False))
    async with httpx.AsyncClient(base_url=live.http) as client:
        for format in ("json", *text_formats()):
            answer = await client.get(f"/v1/rooms/r/transcript.{format}?lang=de")
            assert answer.status_code == 200 and answer.text
            texts.append(answer.text)
    return texts


async def test_the_words_are_found_while_nothing_is_retracted() -> None:
    async with running() as live:
        heard = await say_and_retract(live)
        events = json.dumps(heard, ensure_ascii=False)
        assert all(word in events for word in WORDS.values()) and found(events)


async def test_retracted_text_is_in_no_answer_and_not_in_the_log() -> None:
    async with running() as live:
        await say_and_retract(live)
        assert not any(map(found, await shown(live)))
        assert not found(repr(live.hub.rooms["r"].log.entries()))


async def test_retracted_text_is_not_on_disk_and_not_there_after_a_restart(tmp_path: Path) -> None:
    def store() -> SqliteStore:
        return SqliteStore(tmp_path / "rooms.db", Limits())

    first = store()
    async with running(store=first) as live:
        await say_and_retract(live)
        await first.flush()
        assert found(await asyncio.to_thread(files, tmp_path)) is False
    assert not found(files(tmp_path)) and KEPT in files(tmp_path)
    async with running(store=store()) as live:
        texts = await shown(live)
        assert any(KEPT in text for text in texts) and not any(map(found, texts))


async def test_retracted_text_is_not_in_redis_and_on_no_other_gateway(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis:
        settings = Settings(redis=redis.url)
        async with running(settings=settings) as one, running(settings=settings) as two:
            await say_and_retract(one)
            for live in (one, two):
                assert not any(map(found, await shown(live)))
            values = await asyncio.to_thread(everything, redis)
            assert KEPT in values and not found(values)


def files(folder: Path) -> str:
    """Return the bytes of all files, the write-ahead log included."""
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in folder.iterdir())


def everything(redis: RedisServer) -> str:
    """Return every value in Redis."""
    read = {
        "string": ("GET",),
        "zset": ("ZRANGE", "0", "-1"),
        "stream": ("XRANGE", "-", "+"),
    }
    values = []
    for key in redis.cli("KEYS", "*").splitlines():
        command, *rest = read[redis.cli("TYPE", key)]
        values.append(redis.cli(command, key, *rest))
    return "\n".join(values)
