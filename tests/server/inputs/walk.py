"""The application to which inputs are given, and the check that none of them holds its loop.

Every field of every message, event, body, query, header, path, claim and signed token is tried with
the largest values that its bounds allow, and audio of every codec. Messages, events, bodies, claims
and tokens are derived from their types, queries and headers from the code that reads them: a new
one is tried without being listed, or a test fails.
"""

from __future__ import annotations

import ast
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, get_args

import gateway
from gateway.auth.api_keys import Keyring
from gateway.auth.origin import AllowedHosts
from gateway.engines.scripted import ScriptedEngine, ScriptedRecogniser
from gateway.engines.wrappers.guarded import GuardedEngine
from gateway.limits import Limits
from gateway.protocol.handshake import SOCKET_PATH
from gateway.protocol.messages import REQUESTS
from gateway.server.access.authenticator import Authenticator
from gateway.server.access.jwt_verification import JwtIssuer
from gateway.server.app import GatewayApp, create_app
from gateway.server.realtime.client_events import ClientEvent
from gateway.server.runtime.recognition import RecognitionRunner
from gateway.server.runtime.room_host import TextOptions
from tests.server.access.credentials import FILE, SECRET
from tests.server.inputs.steps import HELD_S, longest_step, uncollected
from tests.support.hearing import Loudness

HEAD = 30_000
"""Bytes of a header, a path or a query: somewhat less than those of a whole head."""

SOCKETS: dict[str, tuple[Any, ...]] = {
    SOCKET_PATH: REQUESTS,
    "/v1/realtime": get_args(ClientEvent),
    "/v1/realtime/translations": get_args(ClientEvent),
}
"""The messages and events of each socket."""

SERVER = Path(gateway.__file__).parent / "server"


@contextlib.asynccontextmanager
async def application(*, keys: bool = False) -> AsyncIterator[GatewayApp]:
    limits = Limits(address_failures=10**9)
    authenticator = Authenticator(
        limits,
        keyring=Keyring(FILE) if keys else None,
        issuer=JwtIssuer(secret=SECRET) if keys else None,
        hosts=AllowedHosts(["x"]),
    )
    engine = GuardedEngine(ScriptedEngine(), Counter())
    app = create_app(engine, limits, authenticator=authenticator, text=TextOptions(coalesce_s=0.0))
    await engine.start()
    hub = app.state.hub
    assert hub.detect is not None
    hub.detect.load()
    hub.recognition = RecognitionRunner(hub.host, ScriptedRecogniser(), Loudness)
    await hub.recognition.recogniser.start()
    async with app.lifespan(app):
        with uncollected():
            yield app
    await hub.recognition.aclose()
    await engine.aclose()


def idle(app: GatewayApp) -> bool:
    """Tell whether nothing is translated, decoded, recognised or to be sent."""
    hub = app.state.hub
    streams, sessions = hub.recognition.streams.values(), hub.sessions.values()
    works = hub.scheduler.running or hub.scheduler.queued or any(s.busy for s in streams)
    return not works and not any(len(session.outbox) for session in sessions)


async def check(name: str, handle: Callable[[], Any], slow: list[str]) -> None:
    seconds = await longest_step(handle)
    if seconds > HELD_S:
        slow.append(f"{name}: {1000 * seconds:.0f} ms")


def with_value(
    encode: Callable[[Any], bytes], base: dict[str, Any], name: str, value: object
) -> bytes:
    return encode({**base, name: value})


def calls(file: Path) -> list[tuple[str, str]]:
    """Return the calls in a module: the function, and the first argument."""
    return [
        (ast.unparse(node.func), ast.unparse(node.args[0]))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and node.args
    ]
