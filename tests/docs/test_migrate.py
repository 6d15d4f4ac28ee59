"""Parameters of other services: the page about moving is compared with the gateway."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import httpx2 as httpx
import msgspec
import pytest

from gateway.server.openai_api.audio import AudioFileRequest
from gateway.server.openai_api.chat import ChatRequest
from gateway.server.realtime.client_events import SessionConfig
from gateway.server.routes.deepl import DeepLRequest
from gateway.server.routes.libretranslate import TranslateQuery
from tests.docs.pages import DOCS
from tests.support.hearing import hearing, tone
from tests.support.live import Live, in_thread
from tests.support.sound_files import wav

PAGE = (DOCS / "how-to" / "migrate.md").read_text(encoding="utf-8")
BODIES: dict[str, tuple[type[msgspec.Struct], dict[str, Any]]] = {
    "/translate": (TranslateQuery, {"q": "Good morning", "source": "en", "target": "de"}),
    "/v2/translate": (DeepLRequest, {"text": ["Good morning"], "target_lang": "DE"}),
    "/v1/chat/completions": (
        ChatRequest,
        {"model": "translate-en-to-de", "messages": [{"role": "user", "content": "Good morning"}]},
    ),
    "/v1/audio/transcriptions": (AudioFileRequest, {}),
    "/v1/audio/translations": (AudioFileRequest, {}),
}
"""The struct that each path reads, and a request for it."""
FILE = wav(tone(0.5))
UNLISTED = {
    # Of this gateway, in the text.
    "/v1/chat/completions": {"source_lang", "target_lang", "context", "glossary"},
    "/v1/audio/transcriptions": {"target_lang"},  # of translations only
    "/v1/audio/translations": {"stream", "timestamp_granularities[]"},  # of transcriptions
}


def rows() -> Iterator[tuple[str, str, Any, str]]:
    """Yield the path, the parameter, its example and the first word of the result."""
    for path, table in re.findall(r"^`POST (\S+)`:\n\n((?:\|.*\n)+)", PAGE, re.MULTILINE):
        for name, example, result in re.findall(
            r"^\| `([\w\[\]]+)` \| `(.+?)` \| (\w+)", table, re.M
        ):
            yield path, name, json.loads(example), result


ROWS = list(rows())


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with in_thread() as running:
        started = asyncio.Event()
        stop = asyncio.Event()

        async def hear() -> None:
            async with hearing(running):
                started.set()
                await stop.wait()

        hears = asyncio.run_coroutine_threadsafe(hear(), running.loop)
        asyncio.run_coroutine_threadsafe(started.wait(), running.loop).result()
        yield running
        running.loop.call_soon_threadsafe(stop.set)
        hears.result()


@pytest.mark.parametrize(("path", "name", "example", "result"), ROWS)
def test_a_parameter_is_honoured_ignored_or_refused_as_the_page_says(
    live: Live, path: str, name: str, example: object, result: str
) -> None:
    shape, body = BODIES[path]
    body = body | {"source_lang": "EN"} if path == "/v2/translate" else body
    if shape is AudioFileRequest:
        form = {} if name == "file" else {name: str(example)}
        answer = httpx.post(live.http + path, files={"file": FILE}, data=form)
    else:
        answer = httpx.post(live.http + path, json=body | {name: example})
    assert answer.status_code == (400 if result == "refused" else 200)
    assert (name in shape.__struct_encode_fields__) == (result != "ignored")


def test_every_parameter_that_is_read_is_on_the_page() -> None:
    for path, (shape, _) in BODIES.items():
        listed = {name for row_path, name, *_ in ROWS if row_path == path}
        missing = set(shape.__struct_encode_fields__) - listed
        assert missing <= UNLISTED.get(path, set()), path


@pytest.mark.parametrize(
    ("name", "result"), re.findall(r"^\| `([\w.]+)` \| (\w+)", PAGE, re.MULTILINE)
)
def test_a_parameter_of_a_realtime_session_is_read_or_not_as_the_page_says(
    name: str, result: str
) -> None:
    shape: Any = SessionConfig
    for part in name.split("."):
        known = {field.name: field.type for field in msgspec.structs.fields(shape)}
        if part not in known:
            assert result == "ignored"
            return
        kinds = get_args(known[part]) or (known[part],)
        shape = next((kind for kind in kinds if hasattr(kind, "__struct_fields__")), None)
    assert result == "honoured"
