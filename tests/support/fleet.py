"""Meetings of several gateways, without sockets, clocks and Redis.

The network is a few queues. Unless ``slow``, everything arrives at once, so that a test of one room
can be a test of a room in three gateways. A slow network delivers what the test tells it to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from gateway.core.history.event_log import EventLog, StreamPosition
from gateway.core.replication.authority import Authority
from gateway.core.replication.messages import (
    Decided,
    FeedMessage,
    InboxMessage,
    as_written,
    decode_feed,
    decode_inbox,
    encode,
    restored_log,
)
from gateway.core.replication.replica import Replica
from gateway.core.room.abstract_room import AbstractRoom
from gateway.core.room.room import Room
from gateway.protocol.messages import Retracted, ServerMessage
from tests.support.meeting import NOW, Meeting, Peer

WALL = 5_000.0
"""Time at which every test begins, in seconds since 1970."""


class Gateway:
    """One gateway: its replica, and the feed that has not reached it yet."""

    def __init__(self, fleet: FleetMeeting, name: str) -> None:
        self.name = name
        self.fleet = fleet
        self.feed: deque[bytes] = deque()
        self.inbox: deque[bytes] = deque()
        self.replica = Replica(
            "meeting",
            gateway=name,
            log=restored_log(fleet.entries(), fleet.limits, fleet.now, fleet.wall),
            targets=fleet.model.targets,
            send=self.send,
        )

    def send(self, gateway: str, message: InboxMessage) -> None:
        """Send a request to the gateway that has the authority; a dead one has lost it."""
        if gateway in self.fleet.gateways:
            self.fleet.gateways[gateway].inbox.append(encode(message))


class FleetMeeting(Meeting):
    """A room with an authority and replicas in front of an engine that the test works by hand.

    ``stream`` is the log of the room, ``unwritten`` is what the authority has sent and Redis has
    not accepted yet. ``changed`` are entries that change with an unwritten event, by its number.
    """

    def __init__(self, *languages: str, gateways: int = 3, slow: bool = False, **meeting: Any):
        self.stream: list[bytes] = []
        self.unwritten: deque[bytes] = deque()
        self.changed: dict[int | None, list[Decided]] = {}
        self.slow = slow
        self.full = False
        self.terms = 0
        self.owner: str | None = "g1"
        self.gateways: dict[str, Gateway] = {}
        self.next_gateway: str | None = None
        super().__init__(*languages, **meeting)
        for number in range(1, gateways + 1):
            self.add_gateway(f"g{number}")
        self.pump()

    @property
    def wall(self) -> float:
        return WALL + self.now - NOW

    def entries(self) -> list[Decided]:
        """Return the log of the room."""
        found = map(decode_feed, self.stream)
        return [entry for entry in found if isinstance(entry, Decided)]

    @property
    def authority(self) -> Authority:
        assert isinstance(self.room, Authority)
        return self.room

    def add_gateway(self, name: str) -> Gateway:
        gateway = self.gateways[name] = Gateway(self, name)
        gateway.replica.owned(self.owner)
        return gateway

    def open_room(self, log: EventLog, observe: Callable[[ServerMessage, float], None]) -> Room:
        self.terms += 1
        return Authority(
            "meeting",
            term=f"t{self.terms}",
            began=self.wall,
            emit=self.emit,
            full=lambda: self.full,
            log=log,
            options=self.room_options(observe),
        )

    def emit(self, message: FeedMessage) -> None:
        if isinstance(message, Decided) and isinstance(message.event, Retracted):
            self.changed[message.event.seq] = self.authority.erased(message.event)
        self.unwritten.append(encode(message))

    def place(self) -> AbstractRoom:
        """Return the replica that the next client enters: of the next gateway in turn."""
        names = list(self.gateways)
        name = self.next_gateway or names[len(self.peers) % len(names)]
        self.next_gateway = None
        return self.gateways[name].replica

    def enter(self, *langs: str, gateway: str | None = None, **request: Any) -> Peer:
        """Return a new client in one of the gateways, see `Meeting.enter`."""
        self.next_gateway = gateway
        return super().enter(*langs, **request)

    def back(self, peer: Peer, seq: int | None = None, **request: Any) -> Peer:
        """Return the client of a socket that was cut, see `Meeting.back`."""
        return super().back(peer, seq, **request)

    # --- the network ------------------------------------------------------------------------------

    def write(self) -> None:
        """Let Redis accept the next message of the authority."""
        payload = self.unwritten.popleft()
        message = decode_feed(payload)
        if isinstance(message, Decided):
            for entry in self.changed.pop(message.event.seq, ()):
                self.stream[(entry.event.seq or 0) - 1] = encode(entry)
            self.stream.append(payload)
        for gateway in self.gateways.values():
            gateway.feed.append(payload)

    def deliver(self, gateway: Gateway) -> None:
        """Deliver the next message of the feed to a gateway."""
        gateway.replica.apply(decode_feed(gateway.feed.popleft()), self.now)

    def receive(self, gateway: Gateway) -> None:
        """Deliver the next request to the gateway that has the authority."""
        message = decode_inbox(gateway.inbox.popleft())
        if gateway.name == self.owner:
            self.authority.receive(message, self.now)

    def lose_message(self, gateway: Gateway) -> None:
        """Lose the next message that no log keeps on its way to a gateway."""
        for n, payload in enumerate(gateway.feed):
            if not isinstance(decode_feed(payload), Decided):
                del gateway.feed[n]
                return

    def pump_writes(self) -> None:
        """Let Redis accept all that the authority has sent."""
        while self.unwritten:
            self.write()

    def pump(self) -> None:
        """Deliver everything."""
        busy = True
        while busy:
            busy = False
            if self.unwritten:
                busy = True
                self.pump_writes()
            for gateway in list(self.gateways.values()):
                while gateway.feed:
                    busy = True
                    self.deliver(gateway)
                while gateway.inbox:
                    busy = True
                    self.receive(gateway)

    def act(self) -> None:
        """Carry out all actions of the scheduler, and deliver everything unless it is slow."""
        super().act()
        if not self.slow:
            while True:
                self.pump()
                if not self.behind and not self.scheduler.due:
                    return
                super().act()

    # --- what happens to gateways -----------------------------------------------------------------

    def lose_authority(self) -> None:
        """End the authority as a killed process does: what Redis has not accepted is lost."""
        self.room.end()
        for jobs in (self.given, self.jobs):
            for job in list(jobs.values()):
                self.stopping.setdefault(job.id, jobs.pop(job.id))
        super().act()
        self.unwritten.clear()
        self.changed.clear()
        self.owner = None
        for gateway in self.gateways.values():
            gateway.replica.owned(None)

    def take(self, name: str) -> None:
        """Give the authority to a gateway, which reads the whole log first."""
        gateway = self.gateways[name]
        while gateway.feed:
            self.deliver(gateway)
        replica = gateway.replica
        log = replica.log.copied(self.now)
        log.epoch = log.epoch or "epoch"
        log.before = StreamPosition(log.epoch, log.seq)
        self.room = self.open_room(log, self.observe)
        self.owner = name
        for other in self.gateways.values():
            while other.feed:  # the news of the owner comes by the feed
                self.deliver(other)
            other.replica.owned(name)

    def lose_data(self, newcomer: str | None = None) -> None:
        """Let Redis lose the log, and the owner write it again.

        :param newcomer: a gateway that begins to follow the room in between
        """
        assert self.owner is not None
        owner = self.gateways[self.owner]
        while owner.feed:  # was published before
            self.deliver(owner)
        self.stream.clear()
        if newcomer is not None:
            self.add_gateway(newcomer)
        for entry in as_written(owner.replica.log, owner.replica.log.entries(), WALL):
            self.stream.append(encode(entry))
            for gateway in self.gateways.values():
                gateway.feed.append(self.stream[-1])

    def kill(self, name: str) -> list[Peer]:
        """Kill a gateway and return its clients, whose sockets are lost."""
        gateway = self.gateways.pop(name)
        lost = [peer for peer in self.peers if peer.session.room is gateway.replica]
        self.peers = [peer for peer in self.peers if peer not in lost]
        if self.owner == name:
            self.lose_authority()
        else:
            self.authority.lose_gateway(name, self.now)
        return lost
