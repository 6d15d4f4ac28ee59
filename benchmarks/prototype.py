"""A minimal prototype: Starlette, uvicorn and AsyncLLM, a task an utterance, a send a token.

    python -m benchmarks.prototype MODEL PORT '{"max_num_seqs": 256, ...}'

A child of `benchmarks.gpu`. It speaks as much of the gateway's protocol as the clients there need.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from benchmarks.streams import prompt


def create(path: str, options: dict[str, Any]) -> Starlette:
    from vllm import AsyncEngineArgs, AsyncLLMEngine, SamplingParams
    from vllm.inputs import tokens_input
    from vllm.sampling_params import RequestOutputKind

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        app.state.engine = AsyncLLMEngine.from_engine_args(AsyncEngineArgs(model=path, **options))
        yield
        app.state.engine.shutdown()

    async def utterance(socket: WebSocket, text: str) -> None:
        sampling = SamplingParams(
            temperature=0,
            max_tokens=len(text) - 40,
            ignore_eos=True,
            output_kind=RequestOutputKind.DELTA,
        )
        whole = ""
        ids = tokens_input(prompt(text))
        outputs = socket.app.state.engine.generate(ids, sampling, str(random.random()))
        async for output in outputs:
            if add := output.outputs[0].text:
                whole += add
                await socket.send_text(json.dumps({"type": "delta", "id": "u1", "add": add}))
        await socket.send_text(json.dumps({"type": "final", "id": "u1", "text": whole}))

    async def serve(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text('{"type":"ready"}')
        tasks: set[asyncio.Task[None]] = set()
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                task = asyncio.create_task(utterance(socket, await socket.receive_text()))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        for task in tasks:
            task.cancel()

    async def ready(_: Any) -> PlainTextResponse:
        return PlainTextResponse("ready")

    routes = [WebSocketRoute("/v1/ws", serve), Route("/readyz", ready)]
    return Starlette(routes=routes, lifespan=life)


if __name__ == "__main__":
    uvicorn.run(
        create(sys.argv[1], json.loads(sys.argv[3])),
        port=int(sys.argv[2]),
        log_level="warning",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
    )
