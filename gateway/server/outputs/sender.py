"""One output of one room: a place in the room's log, and the requests from there on.

Owns: the place, the retries, the session that reads the output's language. Must not know: which
rooms have outputs, what the requests look like (`gateway.server.outputs.messages`).

The log of the room is the queue. It is bounded, so an output needs no memory of its own: if the
receiver is away for so long that the log has dropped events, they are counted as lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import weakref
from collections import Counter
from itertools import islice
from weakref import WeakKeyDictionary

import httpx2 as httpx

from gateway.auth import webhook_signatures
from gateway.auth.permissions import Role
from gateway.core.history.event_log import EventLog, LogEntry
from gateway.core.room.room import Room
from gateway.core.session.connect_request import ConnectRequest
from gateway.core.session.session import Session
from gateway.core.session.state import SessionState
from gateway.errors import GatewayError
from gateway.server.outputs import messages
from gateway.server.outputs.messages import OutputRequest
from gateway.server.runtime.hub import Hub
from gateway.settings.catalogue import OutputTable

log = logging.getLogger("gateway.outputs")

BATCH = 100
"""Most events of one request. A receiver that is slow gets fewer and larger requests."""

ATTEMPT_S = 15.0
"""Seconds for one attempt; Standard Webhooks recommends 15 to 30."""

FIRST_S, LONGEST_S = 1.0, 60.0
"""Seconds until the second attempt, and most seconds between two. Each wait is twice the last."""

GIVE_UP_S = 3_600.0
"""Seconds after which a request that fails is given up. Captions of an hour ago are no news."""

IDLE_S = 60.0
"""Seconds without an event after which the sender ends. The next event starts it again."""

NUMBER = 16
"""Most bytes of a number that a receiver tells."""

GONE = 410
"""Status by which a receiver says that it wants no further requests (Standard Webhooks)."""


class SharedOutput:
    """One output, as the senders of all its rooms share it."""

    def __init__(self, table: OutputTable, client: httpx.AsyncClient) -> None:
        self.table = table
        self.client = client
        self.senders: WeakKeyDictionary[Room, OutputSender] = WeakKeyDictionary()
        self.counts = Counter[str]()  # events "delivered" and "lost", attempts that "failed"
        self.gone = False
        """True once the receiver has answered 410. Nothing is sent to it any more."""

    @property
    def behind(self) -> int:
        """Events of all rooms that are not delivered yet. A scrape asks in a thread of its own."""
        return sum(sender.behind for sender in list(self.senders.values()))


class OutputSender:
    """The requests of one output for one room, about the events after ``since``."""

    def __init__(self, hub: Hub, output: SharedOutput, room: Room, since: int) -> None:
        self._hub = hub
        self._output = output
        self._table = output.table
        self._client = output.client
        self._name = room.name
        self._kept = weakref.ref(room)  # a room that makes space for others is in no memory then
        self._seq = since
        self._news = asyncio.Event()
        self._requests = 0
        self._closing = False
        self.task: asyncio.Task[None] | None = None
        """Task in which `run` runs, as long as it does."""

    @property
    def behind(self) -> int:
        """Events of the room that are not delivered yet."""
        room = self._room
        return 0 if room is None else room.log.seq - self._seq

    @property
    def _room(self) -> Room | None:
        """The room, as long as its events are to be sent."""
        room = None if self._output.gone else self._hub.rooms.get(self._name)
        return room if room is self._kept() else None

    def notify(self) -> None:
        """Tell that the room has a new event."""
        self._news.set()

    def finish(self) -> None:
        """Let `run` end as soon as everything is delivered."""
        self._closing = True
        self._news.set()

    async def run(self) -> None:
        """Send new events until the room ends or is idle."""
        session = await self._read_language()
        try:
            # Requests are numbered on over a restart of the gateway.
            number_url = messages.number_url(self._table)
            if number_url is not None and not self._requests:
                self._requests = await self._number(number_url)
            while self._room is not None:
                self._news.clear()
                if events := self._next(self._room.log):
                    await self._deliver(self._room.log.epoch, events)
                elif self._closing or not await self._wait():
                    return
        finally:
            self.task = None  # first: the next event, also one of closing, needs a new task
            if session is not None:
                self._hub.close(session)

    async def _wait(self) -> bool:
        """Wait for an event, and return whether there is one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE_S):
                await self._news.wait()
        return self._news.is_set()  # it may have come in the meantime

    async def _read_language(self) -> Session | None:
        """Read the output's language as a member of the room, so that it is translated."""
        if self._table.to is None:
            return None
        name = self._name
        asked = ConnectRequest(
            room=name, role=Role.VIEW, targets=(self._table.to,), view="final", speaker=None
        )
        try:
            await self._hub.fetch(name)
            session = self._hub.open(asked)
        except GatewayError as fault:
            log.warning("output %s does not read %s: %s", self._table.label, self._table.to, fault)
            return None
        loop = asyncio.get_running_loop()
        self._discard(session)
        session.outbox.wake = lambda: loop.call_soon(self._discard, session)  # type: ignore[assignment]
        return session

    def _discard(self, session: Session) -> None:
        """Drop the events for the session: the events are read from the log."""
        session.outbox.take()
        # The gateway stops and no further caption comes. It would wait for an open session, as it
        # does for a client that has yet to open its next socket.
        if session.state is SessionState.DISMISSED or session.outbox.closing is not None:
            self._hub.close(session)

    def _next(self, history: EventLog) -> list[LogEntry]:
        lost = history.oldest - 1 - self._seq
        if lost > 0:
            self._output.counts["lost"] += lost
            self._seq += lost
        begin = self._hub.wall() - self._hub.now() + history.began
        entries = islice(history.entries(self._seq), BATCH)
        return [LogEntry(event, begin + at) for event, at in entries]

    async def _deliver(self, epoch: str, events: list[LogEntry]) -> None:
        """Send events, again and again if that fails, until it is too late."""
        last = events[-1].event.seq
        assert last is not None, "an event of a log has a number"
        number = self._requests + 1
        request = messages.request(self._table, self._name, epoch, events, number)
        outcome = "delivered"
        if request is not None:
            self._requests += 1
            if not await self._send(request):
                outcome = "lost"
        self._seq = last
        self._output.counts[outcome] += len(events)

    async def _send(self, request: OutputRequest) -> bool:
        """Return whether the receiver has accepted a request."""
        deadline, pause = self._hub.now() + GIVE_UP_S, FIRST_S
        failed = False
        while self._room is not None:  # a room that was deleted must not be sent any more
            status = await self._attempt(request)
            if 200 <= status < 300:
                if failed:
                    log.info("output %s works again", self._table.label)
                return True
            self._output.counts["failed"] += 1
            if status == GONE:
                if not self._output.gone:  # one line, although other rooms may be told it too
                    log.warning("output %s is gone (410): it gets nothing more", self._table.label)
                self._output.gone = True
                return False
            if not failed:
                log.warning("output %s failed: %s", self._table.label, status or "no answer")
            failed = True
            if self._closing or self._hub.now() + pause > deadline:
                return False
            # Receivers that come back should not be met by all rooms at the same moment.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_S)
        return False

    async def _number(self, url: httpx.URL) -> int:
        """Return the number of the last request that the receiver knows; 0 if it tells none."""
        try:
            async with asyncio.timeout(ATTEMPT_S), self._client.stream("GET", url) as answer:
                async for text in answer.aiter_raw(NUMBER):
                    return max(0, int(text)) if answer.status_code == 200 else 0
                return 0
        except (httpx.HTTPError, OSError, TimeoutError, ValueError):
            return 0

    async def _attempt(self, request: OutputRequest) -> int:
        """Return the status of an attempt, 0 if there was no answer."""
        headers = {"content-type": request.media_type}
        if self._table.secret_key is not None:
            now = int(self._hub.wall())
            headers |= webhook_signatures.signature(
                self._table.secret_key, request.id, now, request.body
            )
        url = httpx.URL(self._table.url).copy_merge_params(request.query)
        try:
            # The answer's body is not read: it may be endless.
            async with (
                asyncio.timeout(ATTEMPT_S),
                self._client.stream("POST", url, content=request.body, headers=headers) as answer,
            ):
                return answer.status_code
        except (httpx.HTTPError, OSError, TimeoutError):
            return 0
