"""An `OpenAIEngine` and its server, for the tests of this engine and of the contract."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from gateway.engines.openai.engine import OpenAIEngine
from gateway.engines.profiles import load
from tests.engines.openai_server import Script, Server

CHAT = load("chat")
RAW = load("seed-x")

PACE = 0.002
"""Seconds to a piece: a fast model, slow enough that its pieces are not all there at once."""


def shout(body: dict[str, Any]) -> Script:
    """Return a reply whose translation is the source in capitals, word by word, after the prefix.

    Like a model, it goes on after any prefix, also after one that it would not have written, and
    says nothing after one that is the whole.
    """
    messages = body["messages"]
    prefix = messages.pop()["content"] if messages[-1]["role"] == "assistant" else ""
    source = re.search(r"<source>(.*)</source>", messages[-1]["content"], re.DOTALL)
    assert source is not None, "the generic chat profile marks the source"
    text = source[1].upper()
    rest = text[len(prefix) :] if text.startswith(prefix) else f" {text}"
    return Script(pieces=re.findall(r"\s*\S+\s*$|\s*\S+", rest), pace=PACE, usage=True)


@contextmanager
def make_engine(**settings: Any) -> Iterator[OpenAIEngine]:
    """Give an engine with the generic chat profile and vLLM's fields.

    The caller starts and closes it.
    """
    with Server(owner="vllm", default=shout) as server:
        yield OpenAIEngine(server.url, **settings)


@asynccontextmanager
async def serving(
    *, owner: str = "tests", server_key: str | None = None, **settings: Any
) -> AsyncIterator[tuple[Server, OpenAIEngine]]:
    """Give a server and a started engine, and check afterwards that nothing is left open."""
    with Server(owner=owner, api_key=server_key) as server:
        engine = OpenAIEngine(server.url, **{"profile": CHAT, **settings})
        await engine.start()
        try:
            yield server, engine
        finally:
            await engine.aclose()
        assert engine.unfinished == 0
        await server.wait(lambda server: server.unfinished == 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
