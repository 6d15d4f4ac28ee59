"""The joining of a gateway to a fleet.

Owns: which parts a gateway of a fleet has. Must not know: what they do.
"""

from __future__ import annotations

from redis.asyncio.connection import parse_url

from gateway.core.replication.messages import VERSION
from gateway.server.fleet.link import FleetLink
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_authority import FleetRooms


def check_url(url: str) -> None:
    """Raise `ValueError` if ``url`` is not that of a Redis."""
    parse_url(url)


def join_fleet(hub: Hub, url: str) -> None:
    """Let a hub share its rooms with the gateways that use the same Redis.

    :param url: such as ``redis://localhost:6379/0``; nothing connects before the hub's lifespan
    """
    hub.fleet = rooms = FleetRooms(hub)
    rooms.link = FleetLink(
        url,
        version=VERSION,
        keep=hub.limits.log,
        kept_s=hub.limits.room_s,
        key_s=max(hub.limits.room_s, hub.limits.resume_s),
        listener=rooms,
    )
