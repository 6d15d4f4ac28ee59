"""Speech that a client sends, over a connection that may break.

Owns: the pace of the audio, its begin on every socket, and its end. Must not know: what was heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from msgspec.structs import replace

from gateway.client.requests import RequestTracker
from gateway.client.state.audio import AudioBacklog, AudioPace
from gateway.client.transport import Refused, Transport
from gateway.protocol.audio import NONE, Audio, AudioState
from gateway.protocol.messages import ServerMessage
from gateway.protocol.notices import Error


class AudioSender:
    """The sender of one speaker's audio. ``begin`` has its codec, rate and languages."""

    def __init__(self, tracker: RequestTracker, begin: Audio, backlog: AudioBacklog) -> None:
        self._tracker = tracker
        self._connection = tracker.connection
        self._begin = begin
        self._backlog = backlog
        self._pace: AudioPace | None = None
        self._transport: Transport | None = None  # on which the audio was begun
        self._news = asyncio.Event()
        self._fault: Error | None = None
        self._now = asyncio.get_running_loop().time

    async def send(self, pieces: AsyncIterator[bytes]) -> None:
        """Send everything, and wait until all is recognised. Raises as `RequestTracker.ask`."""
        self._tracker.watch = self._note
        try:
            await self._start()
            async for piece in pieces:
                self._backlog.add(piece)
                # After a change of the socket `_start` has sent the piece with the others.
                if not await self._changed():
                    await self._write(piece)
            await self._finish()
        finally:
            self._tracker.watch = None

    async def _start(self) -> None:
        """Begin audio on the newest socket, and send the backlog, until no socket breaks."""
        while True:
            transport = self._transport = self._connection.transport
            await self._tracker.ask(AudioState, replace(self._begin, t0=self._backlog.clock))
            info = transport.welcome.audio
            self._pace = None if info is None else AudioPace(info, self._now())
            for piece in self._backlog.begin():
                if self._connection.transport is transport:
                    await self._write(piece)
            if self._connection.transport is transport:
                return

    async def _changed(self) -> bool:
        """Begin anew if there is another socket than before."""
        self._raise()
        if self._connection.transport is self._transport and self._connection.ready:
            return False
        await self._start()
        return True

    async def _write(self, piece: bytes) -> None:
        pace = self._pace
        if pace is not None:
            while pace.full and self._connection.transport is self._transport:
                self._raise()
                self._news.clear()
                await self._news.wait()
            await asyncio.sleep(pace.wait(self._now()))
            pace.sent(self._backlog.seconds(piece), self._now())
        self._raise()
        # Another socket does not know of this audio yet, and `_changed` begins it there.
        if self._connection.transport is self._transport:
            await self._connection.send(piece)

    async def _finish(self) -> None:
        while True:
            await self._changed()
            # Its answer comes when all is heard; on a new socket it has to be asked for again.
            try:
                await self._tracker.ask(AudioState, Audio(codec=NONE), patient=True)
            except Refused as exc:
                # Asked again on the next socket, where no audio is on yet.
                if exc.error.code != "audio_off" or self._connection.transport is self._transport:
                    raise
            else:
                return

    def _note(self, event: ServerMessage | None) -> None:
        """Take an event of the gateway, or None if there is another socket or none any more."""
        if event is not None:
            self._backlog.note(event)
        match event:
            case AudioState() if event.codec != NONE and self._pace is not None:
                self._pace.settled(event.seconds)
            case Error(code="audio_too_fast") if self._pace is not None:
                self._pace.dropped()
            case Error(ref=None, retry=False) if event.code.startswith("audio_"):
                self._fault = event
        self._news.set()

    def _raise(self) -> None:
        if self._connection.lost is not None:
            raise self._connection.lost
        if self._fault is not None:
            raise Refused(self._fault)
