"""Gateways of a fleet, reduced to their links and the reports of the links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gateway.limits import Limits
from gateway.server.fleet.feeds import Entry
from gateway.server.fleet.link import FleetLink
from tests.support.live import until
from tests.support.redis import RedisServer

ROOM = "Besprechung 会議 🎤"


class Follower:
    """A follower of a room, which keeps all calls.

    Durable events begin with their number and a space; volatile messages do not.
    """

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self.log: list[Entry] = list(entries)
        self.volatile: list[str] = []
        self.owners: list[str | None] = []
        self.gaps = 0

    def feed(self, payload: bytes) -> None:
        number, _, _ = payload.partition(b" ")
        if number.isdigit():
            self.log.append((int(number), payload))
        else:
            self.volatile.append(payload.decode())

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.log]


class Peer:
    """A gateway of the fleet."""

    def __init__(self, redis: RedisServer, version: str = "1") -> None:
        self.requests: list[bytes] = []
        self.lost: list[str] = []
        self.lost_gateways: list[str] = []
        self.broadcasts: list[bytes] = []
        self.connections: list[bool] = []
        self.keys: list[bytes] = []
        self.rooms: defaultdict[str, Follower] = defaultdict(Follower)
        limits = Limits(log=1_000, room_s=3_600.0, resume_s=3_600.0)
        self.link = FleetLink(redis.url, version, limits, self)

    def on_request(self, payload: bytes) -> None:
        self.requests.append(payload)

    def on_key(self, key: bytes) -> None:
        self.keys.append(key)

    def on_lost(self, name: str) -> None:
        self.lost.append(name)

    def on_gateway_lost(self, gateway: str) -> None:
        self.lost_gateways.append(gateway)

    def on_broadcast(self, payload: bytes) -> None:
        self.broadcasts.append(payload)

    def on_connection(self, up: bool) -> None:
        self.connections.append(up)

    async def begin(self, name: str, entries: Sequence[Entry]) -> None:
        self.rooms[name].log += entries

    def told(self, name: str, message: object) -> None:
        if isinstance(message, bytes):
            self.rooms[name].feed(message)
        else:
            self.rooms[name].volatile.append(str(message))

    def owner_changed(self, name: str, gateway: str | None) -> None:
        self.rooms[name].owners.append(gateway)

    def gap(self, name: str) -> None:
        self.rooms[name].gaps += 1

    async def entries(self, name: str, after: int) -> Sequence[Entry]:
        return [entry for entry in self.rooms[name].log if entry[0] > after]

    async def follow(self, room: str = ROOM) -> Follower:
        """Follow a room, with all that its log has."""
        follower = self.rooms[room] = Follower()
        await self.link.follow(room)
        await until(lambda: follower.owners != [])
        return follower

    def write(self, *numbers: int, room: str = ROOM) -> None:
        """Append durable events."""
        for number in numbers:
            self.link.append(room, number, f"{number} 你好 {number}".encode())

    def tell(self, text: str, *, alone: bool = False) -> None:
        """Publish a volatile message, unless this gateway is ``alone`` in the room."""
        self.link.publish(ROOM, text, None if alone else text.encode())


class Links:
    """The gateways of one test."""

    def __init__(self) -> None:
        self._peers: list[Peer] = []

    async def join(self, redis: RedisServer, version: str = "1", key: bytes = b"") -> Peer:
        """Start a gateway, and wait until it reads its feeds."""
        peer = Peer(redis, version)
        peer.link.key = key
        self._peers.append(peer)
        await peer.link.start()
        await until(lambda: peer.link._feeds._subscriptions is not None)
        return peer

    async def join_owner(self, redis: RedisServer) -> Peer:
        """Start a gateway that owns the room, and follows it."""
        owner = await self.join(redis)
        await owner.follow()
        assert await owner.link.acquire(ROOM)
        return owner

    async def join_two(self, redis: RedisServer) -> tuple[Peer, Peer]:
        """Start the owner of the room and a second gateway; both follow it."""
        owner, second = await self.join(redis), await self.join(redis)
        await owner.follow()
        await second.follow()
        assert await owner.link.acquire(ROOM)
        return owner, second

    async def kill(self, peer: Peer) -> None:
        """End a gateway without a word to Redis, as a signal 9 does."""
        await peer.link._tasks.aclose()
        await peer.link._feeds.aclose()
        await peer.link.connection.aclose()
        self._peers.remove(peer)

    async def aclose(self) -> None:
        for peer in self._peers:
            await peer.link.aclose()
