"""A small server of transcriptions for tests: real HTTP, scripted answers.

By default it hears one word for every 0.4 s of audio, as the scripted recogniser does, and answers
in `verbose_json`.
"""

from __future__ import annotations

import asyncio
import email
import io
import socket
import wave
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

TEXT = "It was the best of times, it was the worst of times."
PACE = 0.4

Form = dict[str, list[bytes]]


class TranscriptionServer:
    """Answers and requests.

    ``answer`` makes the response to a form. ``may_answer`` holds all responses while it is clear.
    """

    def __init__(self) -> None:
        self.url = ""
        self.forms: list[Form] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[Form], Response] = verbose
        self.models = Response('{"data":[]}', media_type="application/json")
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def transcribe(self, request: Request) -> Response:
        head = f"Content-Type: {request.headers['content-type']}\n\n".encode()
        form: Form = {}
        parts: Any = email.message_from_bytes(head + await request.body()).get_payload()
        for part in parts:
            name = str(part.get_param("name", header="content-disposition"))
            form.setdefault(name, []).append(part.get_payload(decode=True))
        self.forms.append(form)
        self.headers.append(dict(request.headers))
        await self.may_answer.wait()
        return self.answer(form)

    async def list_models(self, request: Request) -> Response:
        return self.models


def verbose(form: Form) -> Response:
    """Answer with as many words as the audio has time for."""
    with wave.open(io.BytesIO(form["file"][0])) as file:
        seconds = file.getnframes() / file.getframerate()
    words = TEXT.split()[: int(seconds / PACE)]
    return JSONResponse(
        {
            "text": " ".join(words),
            "language": "english",
            "words": [
                {"word": word.strip(",."), "start": n * PACE, "end": (n + 1) * PACE}
                for n, word in enumerate(words)
            ],
        }
    )


@asynccontextmanager
async def serving() -> AsyncIterator[TranscriptionServer]:
    """Give a running server."""
    made = TranscriptionServer()
    app = Starlette(
        routes=[
            Route("/v1/models", made.list_models),
            Route("/v1/audio/transcriptions", made.transcribe, methods=["POST"]),
        ]
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        made.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(app, log_config=None, log_level="critical", lifespan="off")
        server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup([listener])
        try:
            yield made
        finally:
            made.may_answer.set()
            server.should_exit = True
            await server.shutdown([listener])
