"""Event streams through a proxy."""

from __future__ import annotations

from tests.support.reverse_proxy import Site


async def first_tick(site: Site) -> None:
    """Wait until the first event of a stream has come through, while the stream goes on."""
    async with (
        site.http() as client,
        client.stream("GET", "/v1/rooms/meeting/events?to=de") as answer,
    ):
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("data:"):
                return
    raise AssertionError("the stream has ended")
