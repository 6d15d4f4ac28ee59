"""Speech of each client, heard by a real gateway with a scripted recogniser."""

from __future__ import annotations

import asyncio
import base64
import io
import re
import shutil
import wave
from pathlib import Path
from typing import Any

import pytest

from gateway.client import Captions, connect
from gateway.job import SAMPLE_RATE
from gateway.protocol.audio import HeardSpeech
from gateway.protocol.messages import Final, Source
from tests.support import speech_audio, speech_gateway
from tests.support.command import run
from tests.support.hearing import hearing, tone
from tests.support.live import running

SPOKEN_S = 3.2
SAID = "We meet again on Monday in the large"
"""Words that the scripted recogniser hears in that time."""
RATE = 24_000


def pieces(pcm: bytes) -> list[str]:
    """Return audio in pieces of a fifth of a second, in base64."""
    size = RATE // 5 * 2
    return [base64.b64encode(pcm[at : at + size]).decode() for at in range(0, len(pcm), size)]


SPOKEN = pieces(tone(SPOKEN_S, RATE) + bytes(2 * RATE * 2))
"""Speech, and two seconds of silence."""


def wav(pcm: bytes, rate: int) -> bytes:
    """Return PCM of one channel as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(pcm)
    return file.getvalue()


@pytest.mark.parametrize("codec", ["json", "msgpack"])
async def test_a_recording_of_the_python_client_is_captioned(codec: Any) -> None:
    async with (
        running() as live,
        hearing(live),
        connect(live.ws, source="en", to=("de",), codec=codec) as client,
    ):
        await client.send_audio(tone(SPOKEN_S), t0=10.0)
        await client.bye()
        events = [event async for event in client]
    captions = Captions()
    for event in events:
        captions.fold(event)
    (source,) = (event for event in events if isinstance(event, Source))
    assert (source.text, source.t0) == (SAID, 10.0)
    assert captions[source.id, "de"].text == f"[de] {SAID}"
    assert [event.t1 for event in events if isinstance(event, Final)] == [source.t1]
    assert any(isinstance(event, HeardSpeech) and not event.final for event in events)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
async def test_a_file_becomes_subtitles_in_all_languages(
    tmp_path: Path, bare: None, capsys: pytest.CaptureFixture[str]
) -> None:
    sound, saved = tmp_path / "talk.wav", tmp_path / "talk.srt"
    sound.write_bytes(wav(bytes(RATE) + tone(SPOKEN_S, RATE) + bytes(RATE), RATE))
    options = ("--from", "en", "--to", "de,fr", "--save", str(saved))
    async with running() as live, hearing(live):
        status = await asyncio.to_thread(run, "listen", sound, "--url", live.ws, *options)
    assert status == 0
    assert capsys.readouterr().out.startswith(f"{SAID}\n")
    assert saved.read_text("utf-8").startswith("1\n00:00:00,")
    for lang in ("de", "fr"):
        text = saved.with_suffix(f".{lang}.srt").read_text("utf-8")
        assert f"[{lang}] We meet again" in text.replace("\n", " ")


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
async def test_a_real_recording_becomes_subtitles_by_a_real_model(
    tmp_path: Path, bare: None, capsys: pytest.CaptureFixture[str]
) -> None:
    sound, saved = tmp_path / "beckett.wav", tmp_path / "beckett.vtt"
    sound.write_bytes(wav(speech_audio.recording("beckett"), SAMPLE_RATE))
    options = ("--from", "en", "--to", "de,fr", "--save", str(saved))
    speech_audio.model()
    async with running() as live, speech_gateway.whisper(live):
        status = await asyncio.to_thread(run, "listen", sound, "--url", live.ws, *options)
    assert status == 0
    words = re.findall(r"[a-z']+", saved.read_text("utf-8").lower())
    assert {"ever", "tried", "failed", "no", "matter", "better"} <= set(words)
    assert "[fr]" in saved.with_suffix(".fr.vtt").read_text("utf-8")


async def test_openai_python_transcribes_and_translates() -> None:
    openai = pytest.importorskip("openai")
    async with running() as live, hearing(live):
        client = openai.AsyncOpenAI(base_url=f"{live.http}/v1", api_key="none")
        async with client.realtime.connect(
            extra_query={"intent": "transcription", "from": "en"}
        ) as socket:
            for piece in SPOKEN:
                await socket.input_audio_buffer.append(audio=piece)
            async for event in socket:
                assert event.type != "error", event
                if event.type.endswith(".completed"):
                    assert event.transcript == SAID
                    break
        async with client.realtime.translations.connect(
            model="any", extra_query={"to": "de", "from": "en"}
        ) as socket:
            for piece in SPOKEN:
                await socket.session.input_audio_buffer.append(audio=piece)
            await socket.session.close()
            events = [event async for event in socket]
        await client.close()
    texts = [event.delta for event in events if event.type == "session.output_transcript.delta"]
    assert "".join(texts) == f"[de] {SAID}"
    assert events[-1].type == "session.closed"


async def test_openai_python_commits_one_utterance_after_the_other() -> None:
    openai = pytest.importorskip("openai")
    wish = {"turn_detection": None, "transcription": {"model": "any", "language": "en"}}
    async with running() as live, hearing(live):
        client = openai.AsyncOpenAI(base_url=f"{live.http}/v1", api_key="none")
        async with client.realtime.connect(extra_query={"intent": "transcription"}) as socket:
            await socket.session.update(session={"type": "transcription", "audio": {"input": wish}})
            for _ in range(3):
                for piece in pieces(tone(SPOKEN_S, RATE)):
                    await socket.input_audio_buffer.append(audio=piece)
                await socket.input_audio_buffer.commit()
            texts: list[str] = []
            async for event in socket:
                assert event.type != "error", event
                if event.type.endswith(".completed"):
                    texts.append(event.transcript)
                    if len(texts) == 3:
                        break
        await client.close()
    assert texts == [SAID] * 3


async def test_a_gateway_without_a_recogniser_refuses_a_client_of_openais_socket() -> None:
    openai = pytest.importorskip("openai")
    async with running() as live:
        client = openai.AsyncOpenAI(base_url=f"{live.http}/v1", api_key="none")
        async with client.realtime.connect(extra_query={"intent": "transcription"}) as socket:
            await socket.input_audio_buffer.append(audio=SPOKEN[0])
            async for event in socket:
                if event.type == "error":
                    assert event.error.code == "audio_unavailable"
                    break
        await client.close()
