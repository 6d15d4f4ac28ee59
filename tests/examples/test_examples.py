"""The examples, as the processes that a reader of them starts."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from websockets.asyncio.server import ServerConnection, serve

from benchmarks.ports import free_port
from gateway.client import connect
from gateway.settings.catalogue import OutputTable
from tests.support.live import running, until
from tests.support.talk import talk

EXAMPLES = Path(__file__).parents[2] / "examples"
SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()
LINES = 60
"""Most lines of an example."""


@contextlib.asynccontextmanager
async def started(*args: str, **environ: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program in the folder of the examples, and kill it at the end."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GATEWAY_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *args,
        cwd=EXAMPLES,
        env=clean | environ | {"PYTHONPATH": str(EXAMPLES.parent)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@contextlib.asynccontextmanager
async def application(name: str, **environ: str) -> AsyncIterator[httpx.AsyncClient]:
    """Serve an ASGI application of the examples, and yield a client of it."""
    port = free_port()
    options = ("--port", str(port), "--log-level", "warning")
    # Requests that come before it listens are repeated.
    transport = httpx.AsyncHTTPTransport(retries=8)
    async with (
        started("-m", "uvicorn", f"{name}:app", *options, **environ),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", transport=transport) as client,
    ):
        await client.get("/openapi.json")
        yield client


async def test_the_fastapi_application_translates_below_its_path() -> None:
    environ = {"GATEWAY_ENGINE": "scripted", "GATEWAY_INSECURE": "1"}
    async with application("fastapi_app", **environ) as client:
        assert (await client.get("/captions/readyz")).json()["status"] == "ready"
        body = {"text": "hello", "source_lang": "en", "target_lang": "de"}
        answer = await client.post("/captions/v1/translate", json=body)
        assert answer.json()["translation"] == "[de] hello"
        assert (await client.get("/rooms")).json() == {}


async def test_the_webhook_receiver_keeps_captions_and_refuses_forged_ones() -> None:
    async with application("webhook_receiver", WEBHOOK_SECRET=SECRET) as client, running() as live:
        forged = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,x"}
        answer = await client.post("/captions", content=b"{}", headers=forged)
        assert answer.status_code == 401
        url = f"{client.base_url}/captions"
        output = OutputTable(kind="webhook", url=url, room="*", secret_key=SECRET)
        live.state.outputs.add((output,))
        async with talk(live, "?room=demo&from=en&to=de") as speaker:
            for text in ("one", "subtitles 字幕", "wrong"):
                await speaker.send({"type": "say", "id": text, "text": text})
                await speaker.until("final")
            await speaker.send({"type": "retract", "id": "wrong"})
            await speaker.until("retracted")
        captions: dict[str, str] = {}
        while list(captions) != ["one de", "subtitles 字幕 de"]:
            captions = (await client.get("/captions/demo")).json()
        assert captions == {"one de": "[de] one", "subtitles 字幕 de": "[de] subtitles 字幕"}


async def test_the_matrix_bot_translates_what_others_write() -> None:
    sent: list[dict[str, Any]] = []
    events = [
        {"type": "m.room.message", "sender": "@bot:x", "content": {"body": "its own"}},
        {"type": "m.room.member", "sender": "@ann:x", "content": {}},
        {
            "type": "m.room.message",
            "sender": "@ann:x",
            "content": {"body": "Guten Morgen zusammen"},
        },
    ]
    timeline = {"rooms": {"join": {"!room:x": {"timeline": {"events": events}}}}}
    forever = asyncio.Event()

    async def sync(request: Request) -> Response:
        since = int(request.query_params.get("since", "0"))
        if since > 1:
            await forever.wait()
        return JSONResponse({"next_batch": str(since + 1), **(timeline if since == 1 else {})})

    async def send(request: Request) -> Response:
        assert request.path_params["room"] == "!room:x"
        sent.append(await request.json())
        return JSONResponse({"event_id": "$1"})

    base = "/_matrix/client/v3"
    routes = [
        Route(f"{base}/account/whoami", lambda _: JSONResponse({"user_id": "@bot:x"})),
        Route(f"{base}/sync", sync),
        Route(base + "/rooms/{room}/send/m.room.message/{id}", send, methods=["PUT"]),
    ]
    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(Starlette(routes=routes), port=port, log_config=None, lifespan="off")
    )
    serving = asyncio.create_task(server._serve())
    await until(lambda: server.started)
    async with running() as live:
        environ = {"MATRIX_URL": f"http://127.0.0.1:{port}", "MATRIX_TOKEN": "t", "TO": "fr"}
        environ |= {"MATRIX_ROOM": "!room:x", "GATEWAY": live.ws}
        async with started("matrix_bot.py", **environ):
            await until(lambda: len(sent) > 0)
    forever.set()
    server.should_exit = True
    await serving
    assert sent == [{"msgtype": "m.notice", "body": "[fr] Guten Morgen zusammen"}]


class Obs:
    """OBS as its protocol obs-websocket 5 has it: a password, and requests with answers.

    ``shown`` are the captions that it wrote into the stream; ``streams`` is whether it does.
    """

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.streams = False
        self.asked = 0

    async def serve(self, socket: ServerConnection) -> None:
        challenge = {"challenge": "c", "salt": "s"}
        hello = {"rpcVersion": 1, "obsWebSocketVersion": "5.1.0", "authentication": challenge}
        await socket.send(json.dumps({"op": 0, "d": hello}))
        identify = json.loads(await socket.recv())
        assert identify["d"]["authentication"] == _hashed(_hashed("password" + "s") + "c")
        await socket.send(json.dumps({"op": 2, "d": {"negotiatedRpcVersion": 1}}))
        async for frame in socket:
            asked = json.loads(frame)["d"]
            if asked["requestType"] == "SendStreamCaption":
                self.shown.append(asked["requestData"]["captionText"])
            self.asked += 1
            answer = {key: asked[key] for key in ("requestType", "requestId")}
            answer["requestStatus"] = {"result": True, "code": 100}
            answer["responseData"] = {"outputActive": self.streams}
            await socket.send(json.dumps({"op": 7, "d": answer}))


def _hashed(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


async def test_obs_writes_finished_captions_into_its_stream_in_parts_that_fit() -> None:
    obs = Obs()
    long = "we meet again on Thursday at nine when all of you have read the numbers " * 2
    async with running() as live, serve(obs.serve, "127.0.0.1", 0) as server:
        port = str(server.sockets[0].getsockname()[1])
        environ = {"OBS_PORT": port, "OBS_PASSWORD": "password", "ROOM": "meeting", "TO": "de"}
        async with (
            started("obs_captions.py", GATEWAY=live.ws, **environ),
            connect(live.ws, room="meeting", source="en", to=["de"]) as client,
        ):
            await until(lambda: len(live.hub.rooms["meeting"].subscribers.members) == 2)
            await client.say("before the stream")
            await until(lambda: obs.asked == 1)
            obs.streams = True
            await client.say("good morning")
            await client.say(long.strip())
            await until(lambda: len(obs.shown) == 3)
    assert obs.shown[0] == "[de] good morning"
    assert " ".join(obs.shown[1:]) == f"[de] {long.strip()}"
    assert all(len(part) <= 128 for part in obs.shown)


async def test_the_bridge_sends_what_a_recogniser_hears() -> None:
    heard = [{"partial": "good"}, {"partial": "good mor"}, {"text": "good morning"}, {"text": ""}]
    lines = "".join(json.dumps(one) + "\n" for one in [*heard, {"text": "we meet"}])
    async with running() as live, started("recogniser_bridge.py", GATEWAY=live.ws) as process:
        out, _ = await process.communicate(lines.encode())
        assert process.returncode == 0
    assert sorted(out.decode().splitlines()) == ["[de] good morning", "[de] we meet"]


def test_every_example_is_short_and_public_and_listed_and_has_a_test() -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    here = Path(__file__).read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES, path.name
        assert f"({path.name})" in readme
        internal = re.findall(r"^\s*(?:from|import) gateway\b.*", path.read_text("utf-8"), re.M)
        assert internal == [], "examples import public names only"
        assert re.search(rf'"{path.stem}(\.py)?"', here), path.name
