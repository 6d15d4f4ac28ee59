"""A FastAPI application with the gateway mounted below a path, for tests of the page."""

from __future__ import annotations

from fastapi import FastAPI

from gateway.server.build import gateway_app
from gateway.settings.catalogue import Settings

captions = gateway_app(Settings(engine="scripted", insecure=True))
app = FastAPI(lifespan=captions.lifespan)
app.mount("/meetings/captions", captions)
