"""A small OpenAI-compatible server for tests: real HTTP, scripted replies and faults.

Starlette on uvicorn, port 0, in a thread of its own. It sees what a real server sees: which
requests are open, and whether a client left before the end. ``wait`` lets a test wait for that.

    with Server() as server:
        server.script(Script(["Guten", " Morgen"]))
        engine = OpenAIEngine(server.url)
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from benchmarks.listeners import stop_listening

PATIENCE = 40.0
"""Seconds `Server.wait` waits for what must happen; only a failing test takes them."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """One reply.

    ``pieces``     text of the deltas, one each; bytes are written as they stand, by themselves
    ``finish``     the finish_reason; None leaves it out
    ``done``       whether ``[DONE]`` follows
    ``late``       do not even begin the response before `Server.release`
    ``hold``       before the piece of this number, wait for `Server.release`
    ``pace``       seconds after each piece, as a model takes them; for `default` replies
    ``cut``        before the piece of this number, break the connection
    ``status``     other than 200: answer with this and ``body`` instead of a stream
    ``type``       content type of the stream
    ``usage``      whether each event tells how many tokens there are by now, as vLLM can
    """

    pieces: Sequence[str | bytes] = ("Guten", " Morgen", "!")
    finish: str | None = "stop"
    done: bool = True
    late: bool = False
    hold: int | None = None
    pace: float = 0.0
    cut: int | None = None
    status: int = 200
    body: Any = None
    type: str = "text/event-stream; charset=utf-8"
    usage: bool = False


@dataclass
class Received:
    """One request as it came. ``gone``: the client left before the end of the reply."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any] = field(default_factory=dict)
    gone: bool = False


class Server:
    """See the module.

    :param models: ids it lists
    :param owner: ``owned_by`` of the models; ``vllm`` makes the engine send vLLM's own fields
    :param api_key: demanded as bearer token, if any
    :param default: makes the reply to a request that no `script` waits for
    """

    def __init__(
        self,
        models: Sequence[str] = ("test-model",),
        *,
        owner: str = "tests",
        api_key: str | None = None,
        default: Callable[[dict[str, Any]], Script] = lambda body: Script(),
        port: int = 0,
    ) -> None:
        self.models = list(models)
        self.owner = owner
        self.api_key = api_key
        self.default = default
        self.listing: Response | None = None
        """Answered to GET /v1/models instead of the list."""
        self.listed = 0
        """Number of requests for GET /v1/models."""
        self.received: list[Received] = []
        """Requests for text, oldest first."""
        self.unfinished = 0
        """Replies that have begun and not ended."""
        self.clients: set[tuple[str, int]] = set()
        """Addresses the requests for text came from: one to a connection."""
        self._scripts: deque[Script] = deque()
        self._changed = threading.Condition()
        self._released = asyncio.Event()
        self._serving = threading.Event()
        # The protocol is named, or asyncio leaves Nagle's algorithm on, which joins pieces.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        v1 = [
            Route("/models", self._models),
            Route("/completions", self._text, methods=["POST"]),
            Route("/chat/completions", self._text, methods=["POST"]),
        ]
        app = Starlette(routes=[Route("/health", self._health), Mount("/v1", routes=v1)])
        config = uvicorn.Config(app, log_config=None, log_level="critical")
        self._server = Prompt(config)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._socket.listen()
        self._thread.start()
        assert self._serving.wait(PATIENCE), "the test server did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._server.stop.set)
        self._thread.join(PATIENCE)
        self._socket.close()
        assert not self._thread.is_alive(), "the test server did not stop"

    # Methods for tests

    def script(self, *scripts: Script) -> None:
        """Set the replies to the next requests, in order."""
        self._scripts.extend(scripts)

    def release(self) -> None:
        """Continue every held reply, and do not hold later ones."""
        self._loop.call_soon_threadsafe(self._released.set)

    async def wait(self, condition: Callable[[Server], bool]) -> None:
        """Return when ``condition`` holds. Fail the test if it never does."""

        def watch() -> bool:
            with self._changed:
                return self._changed.wait_for(lambda: condition(self), PATIENCE)

        assert await asyncio.to_thread(watch), "what the server had to see never happened"

    # Responses

    def _run(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            self._serving.set()  # the socket listens already: early clients wait in its queue
            await self._server.serve(sockets=[self._socket])

        asyncio.run(serve())

    def _note(self, change: Callable[[], None]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()

    def _allowed(self, request: Request) -> bool:
        wanted = f"Bearer {self.api_key}"
        return self.api_key is None or request.headers.get("authorization") == wanted

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse("")

    async def _models(self, request: Request) -> Response:
        def count() -> None:
            self.listed += 1

        self._note(count)
        if not self._allowed(request):
            return JSONResponse({"error": {"message": "who are you?"}}, 401)
        data = [{"id": id, "object": "model", "owned_by": self.owner} for id in self.models]
        return self.listing or JSONResponse({"object": "list", "data": data})

    async def _text(self, request: Request) -> Response:
        if not self._allowed(request):
            return JSONResponse({"error": {"message": "who are you?"}}, 401)
        received = Received(request.url.path, dict(request.headers), await request.json())
        assert request.client is not None
        self.clients.add((request.client.host, request.client.port))
        script = self._scripts.popleft() if self._scripts else self.default(received.body)
        return Reply(self, script, received)

    async def work(self, script: Script, received: Received, receive: Receive, send: Send) -> None:
        """Send the reply, until its end or until the client leaves."""

        def begin() -> None:
            self.received.append(received)
            self.unfinished += 1

        def end() -> None:
            self.unfinished -= 1

        self._note(begin)
        gone = asyncio.create_task(disconnect(receive))
        reply = asyncio.create_task(self._reply(script, received, send))
        try:
            await asyncio.wait({gone, reply}, return_when=asyncio.FIRST_COMPLETED)
            received.gone = not reply.done()
        finally:
            for task in (gone, reply):
                task.cancel()
            await asyncio.wait({gone, reply})
            self._note(end)
        if not reply.cancelled():
            reply.result()  # a Cut goes on to uvicorn, which breaks the connection

    async def _reply(self, script: Script, received: Received, send: Send) -> None:
        if script.late:
            await self._released.wait()
        streams = script.status == 200
        kind = script.type if streams else "application/json"
        await send(
            {
                "type": "http.response.start",
                "status": script.status,
                "headers": [(b"content-type", kind.encode())],
            }
        )
        if not streams:
            body = script.body if isinstance(script.body, bytes) else dump(script.body)
            await send({"type": "http.response.body", "body": body})
            return
        async for data in self._stream(script, received.path.endswith("chat/completions")):
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _stream(self, script: Script, chat: bool) -> AsyncIterator[bytes]:
        for n, piece in enumerate(script.pieces):
            if n == script.cut:
                raise Cut
            if n == script.hold:
                await self._released.wait()
            if isinstance(piece, bytes):
                yield piece
                continue
            usage = {"usage": {"completion_tokens": n + 1}} if script.usage else {}
            yield event({"choices": [choice(piece, chat)], **usage})
            await asyncio.sleep(script.pace)
        for place in (script.cut, script.hold):
            assert place is None or place < len(script.pieces), "no piece of this number"
        if script.finish is not None:
            yield event({"choices": [{**choice("", chat), "finish_reason": script.finish}]})
        if script.done:
            yield b"data: [DONE]\n\n"


class Prompt(uvicorn.Server):
    """A server that stops at once. Uvicorn takes up to 0.2 s, and there are a hundred tests."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stop = asyncio.Event()

    async def main_loop(self) -> None:
        await self.stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            await stop_listening(server)
        for connection in list(self.server_state.connections):
            connection.shutdown()
        for task in (tasks := set(self.server_state.tasks)):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for connection in list(self.server_state.connections):  # of the cancelled tasks
            connection.transport.abort()
        await asyncio.sleep(0)  # aborted transports close in the next turn of the loop


class Reply(Response):
    """A response that `Server.work` writes."""

    def __init__(self, server: Server, script: Script, received: Received) -> None:
        super().__init__()
        self.server = server
        self.script = script
        self.received = received

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.server.work(self.script, self.received, receive, send)


class Cut(Exception):
    """An error raised inside the application, after which uvicorn cuts the connection."""


async def disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def choice(piece: str, chat: bool) -> dict[str, Any]:
    said = {"delta": {"content": piece}} if chat else {"text": piece}
    return {"index": 0, "finish_reason": None, **said}


def event(body: Any) -> bytes:
    """Return one event with its text unescaped, so that a character may take several bytes."""
    return b"data: " + dump(body) + b"\n\n"


def dump(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()
