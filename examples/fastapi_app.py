"""A FastAPI application with the gateway below ``/captions``.

The page is at ``/captions/``, the WebSocket at ``/captions/v1/ws``. ``/rooms`` is a route of the
application that looks into the gateway. Settings come from the variables ``GATEWAY_...``.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from caption_gateway import gateway_app, load_settings

captions = gateway_app(load_settings({}, os.environ).settings)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Run the application's own resources, and the gateway in it."""
    async with captions.lifespan(app):
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/captions", captions)


@app.get("/rooms")
async def rooms() -> dict[str, int]:
    """Answer with the rooms that are open and the number of durable events in each."""
    return {name: room.log.seq for name, room in captions.state.hub.rooms.items()}
