"""A gateway process that recognises real speech, and one whose recogniser cannot start."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from typing import Literal

import pytest
from websockets.asyncio.client import connect

from gateway.engines.recognition.wrappers import FallbackRecogniser
from gateway.engines.scripted import ScriptedEngine, ScriptedRecogniser
from gateway.server.build import build
from gateway.settings.catalogue import Settings
from tests.server.started import SCRIPTED, gateway
from tests.support import speech_audio
from tests.support.hearing import pieces


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


async def test_real_speech_is_heard_and_translated_by_a_gateway_process() -> None:
    model = str(speech_audio.model())
    sound = speech_audio.excerpt("two_cities", 0.0, 6.0)
    chosen = ("--recogniser", "whisper", "--recogniser-model", model)
    with gateway(*SCRIPTED, *chosen) as process:
        async with connect(f"ws://127.0.0.1:{process.port}/v1/ws?from=en&to=de") as socket:
            welcome = json.loads(await socket.recv())
            assert welcome["audio"]["languages"] == ["en"]
            await socket.send('{"type":"audio","codec":"pcm_s16le"}')
            for frame in pieces(sound):
                await socket.send(frame)
            await socket.send('{"type":"bye"}')
            events = [json.loads(frame) async for frame in socket]
    assert [event["type"] for event in events if event["type"] in ("error", "failed")] == []
    heard = " ".join(event["text"] for event in events if event["type"] == "source")
    assert words(heard)[:12] == words("It was the best of times, it was the worst of times")
    finals = [event for event in events if event["type"] == "final"]
    assert finals and all(0 <= event["t0"] < event["t1"] <= 6.5 for event in finals)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("whisper",), "needs a model"),
        (("whisper", "--recogniser-model", "/nowhere"), "cannot be loaded"),
        (("openai",), "address of a server"),
    ],
)
def test_a_recogniser_that_cannot_start_ends_the_process_with_a_sentence(
    flags: tuple[str, ...], said: str
) -> None:
    command = [sys.executable, "-m", "gateway", "serve", *SCRIPTED, "--port", "0"]
    done = subprocess.run(
        [*command, "--recogniser", *flags], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("recogniser", "name"), [(None, None), ("scripted", "scripted")])
def test_a_gateway_recognises_speech_if_the_setting_says_so(
    recogniser: Literal["scripted"] | None, name: str | None
) -> None:
    hub = build(Settings(recogniser=recogniser), ScriptedEngine(), Counter()).state.hub
    chosen = hub.recognition and hub.recognition.recogniser.name
    assert chosen == (name and ScriptedRecogniser().name)


def test_the_settings_choose_a_fallback_and_the_device_of_the_recogniser() -> None:
    settings = Settings(
        recogniser="openai",
        recogniser_url="http://127.0.0.1:1",
        recogniser_model="large",
        recogniser_workers=32,
        recogniser_fallback="whisper",
        recogniser_fallback_model="/models/tiny",
        recogniser_device="cpu",
        recogniser_compute_type="int8",
    )
    hub = build(settings, ScriptedEngine(), Counter()).state.hub
    assert hub.recognition is not None
    recogniser = hub.recognition.recogniser
    assert isinstance(recogniser, FallbackRecogniser)
    assert (recogniser.primary.name, recogniser.primary.capacity) == ("openai:large", 32)
    assert (recogniser.secondary.name, recogniser.secondary.capacity) == ("whisper:tiny", 1)
