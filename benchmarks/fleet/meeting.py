"""A meeting of speakers and readers, and the events of each reader.

Owns: the clients, and the count of what was lost or came twice. Must not know: processes, faults.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.client.api import Client, connect
from gateway.client.reconnect import Disconnected
from gateway.client.transport import ConnectionLost
from gateway.protocol.messages import Cancelled, Delta, Failed, Final, Welcome


@dataclass
class Reader:
    """A reader of one language.

    ``finals``   how often the caption of each utterance ended
    ``away``     seconds of each time without a connection
    """

    lang: str
    url: str
    finals: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    deltas: int = 0
    texts: dict[str, str] = field(default_factory=dict)
    away: list[float] = field(default_factory=list)
    _left: float | None = None

    async def read(self, room: str, ready: asyncio.Event) -> None:
        """Read until cancelled."""
        async with connect(
            self.url, room=room, role="view", to=(self.lang,), notice=self._notice
        ) as client:
            ready.set()
            async for event in client:
                match event:
                    case Delta():
                        self.deltas += 1
                    case Final(lang=self.lang):
                        self.finals[event.id] += 1
                        self.texts[event.id] = event.text
                    case Failed(lang=self.lang) | Cancelled(lang=self.lang):
                        self.failed += 1

    def _notice(self, notice: Disconnected | Welcome) -> None:
        now = time.monotonic()
        if isinstance(notice, Disconnected):
            self._left = self._left or now
        elif self._left is not None:
            self.away.append(now - self._left)
            self._left = None


async def speak(url: str, room: str, lang: str, lines: Sequence[str], pause: float) -> list[str]:
    """Say lines one after the other; return the ids of the accepted ones."""
    said = []
    async with connect(url, room=room, source=lang, to=(lang,), speaker=lang) as client:
        client.__aiter__()
        drain = asyncio.create_task(_ignore(client))
        for line in lines:
            said.append(await client.say(line))
            await asyncio.sleep(pause)
        await client.bye()
        await drain
    return said


async def _ignore(client: Client) -> None:
    try:
        async for _ in client:
            pass
    except ConnectionLost:
        pass
