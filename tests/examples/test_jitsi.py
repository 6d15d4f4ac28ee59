"""The bridge for Jitsi, with a client that sends the messages of Jigasi."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from benchmarks.ports import free_port
from gateway.errors import ErrorCode
from gateway.protocol.audio import Audio
from tests.examples.test_examples import started
from tests.support.speech_server import hearing

SECOND = bytes(2 * 16_000)
END = b"\0"


def frame(participant: str, lang: str, pcm: bytes) -> bytes:
    return f"{participant}|{lang}".encode().ljust(60, b"\0") + pcm


@contextlib.asynccontextmanager
async def meeting(gateway: str) -> AsyncIterator[ClientConnection]:
    """Start the bridge, and connect as Jigasi does for each meeting."""
    port = free_port()
    url = f"ws://127.0.0.1:{port}/streaming-whisper/ws/{uuid.uuid4()}?auth_token=e30.e30.e30"
    async with started("jitsi_bridge/bridge.py", GATEWAY=gateway, PORT=str(port)) as process:
        jigasi = None
        while jigasi is None:
            assert process.returncode is None
            with contextlib.suppress(ConnectionRefusedError):
                jigasi = await connect(url)
        async with jigasi:
            yield jigasi


async def said(jigasi: ClientConnection, count: int) -> list[dict[str, Any]]:
    """Return the answers up to the given number of finals."""
    answers: list[dict[str, Any]] = []
    while sum(one["type"] == "final" for one in answers) < count:
        answers.append(json.loads(await jigasi.recv()))
    return answers


async def test_the_bridge_answers_jigasi_with_what_each_participant_says() -> None:
    async with hearing() as server, meeting(server.url) as jigasi:
        for participant, lang in (("abc@meet/ann", "en-US"), ("abc@meet/田中", "null")):
            await jigasi.send(frame(participant, lang, SECOND))
            answers = await said(jigasi, 2)
            assert {one["participant_id"] for one in answers} == {participant}
            finals = [one["text"] for one in answers if one["type"] == "final"]
            assert finals == ["We meet again.", "On Thursday."]
            assert [(one["type"], one["text"]) for one in answers[:2]] == [
                ("interim", "We"),
                ("interim", "We meet"),
            ]
            assert answers[0]["id"] == answers[2]["id"] != answers[3]["id"]
            for one in answers:
                assert uuid.UUID(one["id"])
                assert isinstance(one["ts"], int)
                assert isinstance(one["variance"], float)
        await jigasi.send(END)
        with contextlib.suppress(ConnectionClosed):
            assert await jigasi.recv() is None, "all was said"
    assert b"".join(server.frames) == 2 * SECOND
    begun = [one for one in server.asked if isinstance(one, Audio) and one.codec != "none"]
    assert [one.rate for one in begun] == [16_000, 16_000]


async def test_the_last_words_of_a_participant_who_is_muted_are_ended_by_silence() -> None:
    async with hearing() as server, meeting(server.url) as jigasi:
        await jigasi.send(frame("abc@meet/ann", "en", SECOND[: len(SECOND) // 4]))
        answers = await said(jigasi, 1)
    assert answers[-1]["text"] == "We meet again."


async def test_a_participant_that_the_gateway_refuses_does_not_end_the_meeting() -> None:
    async with hearing(refuse=ErrorCode.FORBIDDEN) as server, meeting(server.url) as jigasi:
        await jigasi.send(frame("abc@meet/ann", "en", SECOND))
        while not server.asked:
            await jigasi.ping()
            await asyncio.sleep(0)
        await jigasi.send(frame("abc@meet/ann", "en", SECOND))
        await jigasi.send(END)
        await jigasi.wait_closed()
    assert jigasi.close_code == 1000


def test_the_readme_says_that_no_jitsi_was_tried() -> None:
    folder = Path(__file__).parents[2] / "examples" / "jitsi_bridge"
    for name in ("README.md", "bridge.py"):
        text = " ".join((folder / name).read_text(encoding="utf-8").split())
        assert "not tried with a Jitsi server" in text
