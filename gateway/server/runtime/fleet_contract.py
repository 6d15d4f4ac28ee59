"""The contract between the shared rooms of a gateway and its link to the other gateways.

Owns: the methods that either side calls of the other. Must not know: Redis
(`gateway.server.fleet`), what rooms decide (`gateway.server.runtime.room_authority`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Entry = tuple[int, bytes]
"""The number of a durable event, and the event."""


class RoomListener(Protocol):
    """The follower of one room, see `gateway.server.fleet.feeds`."""

    async def begin(self, entries: Sequence[Entry]) -> None:
        """Handle the durable events so far. Nothing else is called before this returns."""

    def feed(self, payload: bytes) -> None:
        """Handle the next message of another gateway, or the next durable event."""

    def own(self, message: object) -> None:
        """Handle the next volatile message of this gateway, see `Link.publish`."""

    def owner(self, gateway: str | None) -> None:
        """Note which gateway owns the room."""

    def gap(self) -> None:
        """Note that volatile messages may have been lost."""

    async def entries(self, after: int) -> Sequence[Entry]:
        """Return the durable events after a number."""


class LinkListener(Protocol):
    """The listener of a link: the rooms that a gateway shares."""

    def on_request(self, payload: bytes) -> None:
        """Handle a request of a gateway. The requests of each gateway come in its order."""

    def on_lost(self, name: str) -> None:
        """Note that this gateway owns a room no longer."""

    def on_gateway_lost(self, gateway: str) -> None:
        """Note that a gateway that sent requests shows no life."""

    def on_broadcast(self, payload: bytes) -> None:
        """Handle a message to all gateways, this gateway's own included."""

    def on_connection(self, up: bool) -> None:
        """Note that Redis went away or came back."""

    def on_key(self, key: bytes) -> None:
        """Sign with the key that all gateways share."""


class Link(Protocol):
    """The link to the other gateways, see `gateway.server.fleet.link.FleetLink`."""

    id: str
    key: bytes
    """Signing key that this gateway shares with the others; empty if it shares none."""

    @property
    def connected(self) -> bool:
        """True while the other gateways can be reached."""

    @property
    def compatible(self) -> bool:
        """False if the other gateways use messages of another version."""

    @property
    def queued(self) -> int:
        """Number of commands that wait for Redis or for its answer."""

    @property
    def dropped(self) -> int:
        """Number of volatile messages that were dropped."""

    @property
    def malformed(self) -> int:
        """Number of messages and values of Redis that could not be read."""

    async def start(self) -> None:
        """Connect, or go on trying."""

    async def aclose(self) -> None:
        """Give all rooms back and disconnect."""

    async def follow(self, name: str, listener: RoomListener) -> None:
        """Follow a room, and give the listener its events. Raises `ClientFault` (``busy``)."""

    async def unfollow(self, name: str) -> None:
        """Stop following a room that this gateway does not own."""

    async def read(self, name: str, after: int = 0) -> list[Entry]:
        """Return durable events of any room. Raises `ClientFault` (``busy``)."""

    def owns(self, name: str) -> bool:
        """Tell whether this gateway owns a room."""

    async def acquire(self, name: str) -> bool:
        """Take a room if no gateway owns it; return whether this gateway owns it now."""

    def release(self, name: str, *, end: bool = False) -> None:
        """Give a room back once everything is written; delete its log if it has ended."""

    def append(self, name: str, seq: int, payload: bytes, changed: Sequence[Entry] = ()) -> None:
        """Write a durable event of an owned room, publish it, and replace older events."""

    def publish(self, name: str, message: object, payload: bytes | None) -> None:
        """Publish a volatile message of an owned room.

        :param message: given to this gateway's listener of the room
        :param payload: the message for the other gateways; None if none of them needs it
        """

    def unwritten(self, name: str) -> int:
        """Return how many durable events of a room are not written."""

    def send(self, gateway: str, payload: bytes) -> None:
        """Send a request to a gateway."""

    def broadcast(self, payload: bytes) -> None:
        """Publish a message to all gateways. It may be lost."""
