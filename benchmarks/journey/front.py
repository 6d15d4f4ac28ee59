"""The web server of (a) to (e), as a process: ``python -m benchmarks.journey.front PLAN``.

Owns: two routes, start and end. Must not know: how a translation is made.

The original was FastAPI, which is built on Starlette; here it is Starlette alone.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.journey import continuous
from benchmarks.journey.plan import WORKERS, Plan
from benchmarks.journey.worker import Full, Workers

log = logging.getLogger("benchmarks.journey")


class Asked(msgspec.Struct):
    """The body of a request."""

    text: str


class Started(msgspec.Struct):
    """The configuration of the server: a plan and an address."""

    plan: Plan
    port: int


def app(plan: Plan) -> Starlette:
    """Return the application: ``POST /translate``, and ``GET /readyz`` with 200 once a model is
    loaded.
    """
    made: list[Workers | continuous.Continuous] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        engine = Workers(plan) if plan.architecture in WORKERS else continuous.build(plan)
        try:
            await engine.start()
            made.append(engine)
            yield
        finally:
            await engine.aclose()

    async def translate(request: Request) -> Response:
        asked = msgspec.json.decode(await request.body(), type=Asked)
        try:
            answer = await made[0].translate(asked.text)
        except Full:
            return Response("full", 503)
        return Response(msgspec.json.encode(answer), media_type="application/json")

    async def ready(_: Request) -> Response:
        return Response("ready")

    return Starlette(
        routes=[Route("/translate", translate, methods=["POST"]), Route("/readyz", ready)],
        lifespan=lifespan,
    )


def main() -> None:
    """Serve until SIGTERM."""
    logging.basicConfig(level="INFO")
    started = msgspec.json.decode(sys.argv[1], type=Started)
    uvicorn.run(
        app(started.plan),
        host="127.0.0.1",
        port=started.port,
        access_log=False,
        log_config=None,
        backlog=4096,
        timeout_keep_alive=600,
    )


if __name__ == "__main__":
    main()
