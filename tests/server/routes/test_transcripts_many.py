"""Fifty meetings at once in four languages: no caption is lost or reaches another room."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from tests.support.live import Live, running
from tests.support.talk import Talk, talk

ROOMS, LANGUAGES, LINES = 50, ("de", "fr", "es", "ja"), 4


async def test_fifty_rooms_of_four_languages_lose_no_caption() -> None:
    # Bounds for a slow machine: the test is not about overload.
    async with running(ScriptedEngine(), Limits(queue=1000, soon_s=60)) as live:
        await asyncio.gather(*(_meeting(live, f"room{n}") for n in range(ROOMS)))
        assert live.hub.scheduler.queued == live.hub.scheduler.running == 0


async def _meeting(live: Live, room: str) -> None:
    """Run a meeting with one speaker, whose lines grow, and one reader of each language."""
    async with contextlib.AsyncExitStack() as stack:
        readers = [
            await stack.enter_async_context(talk(live, f"?room={room}&role=view&to={lang}"))
            for lang in LANGUAGES
        ]
        speaker = await stack.enter_async_context(talk(live, f"?room={room}&from=en"))
        reading = [
            asyncio.create_task(_read(reader, lang))
            for reader, lang in zip(readers, LANGUAGES, strict=True)
        ]
        for line in range(LINES):
            words = f"{room} says line number {line}".split()
            for count in range(2, len(words)):
                text = " ".join(words[:count])
                await speaker.send({"type": "say", "id": f"l{line}", "text": text, "final": False})
            await speaker.send({"type": "say", "id": f"l{line}", "text": " ".join(words)})
        for lang, finals in zip(LANGUAGES, await asyncio.gather(*reading), strict=True):
            assert finals == {
                f"l{line}": f"[{lang}] {room} says line number {line}" for line in range(LINES)
            }


async def _read(reader: Talk, lang: str) -> dict[str, Any]:
    finals: dict[str, Any] = {}
    while len(finals) < LINES:
        event = await reader.next()
        assert event.get("lang", lang) == lang or event["type"] == "source", event
        if event["type"] == "final":
            assert event["id"] not in finals, event
            finals[event["id"]] = event["text"]
    return finals
