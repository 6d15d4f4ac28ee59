"""OpenAI's realtime sockets, used by the clients that people have, unmodified."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from tests.support.live import until
from tests.support.speech_server import hearing

PIECE = bytes(4800)
"""A tenth of a second at 24 kHz, in which `hearing` hears a word."""
WORDS = 5
PIECES = [base64.b64encode(PIECE).decode()] * WORDS
SAID = ["We meet again.", "On Thursday."]


def transcription(**wish: object) -> dict[str, Any]:
    """Return the configuration of a transcription session."""
    words = {"model": "any", "language": "en"}
    return {"type": "transcription", "audio": {"input": {"transcription": words, **wish}}}


async def test_openai_python_transcribes_with_server_side_turn_detection() -> None:
    openai = pytest.importorskip("openai")
    async with hearing() as server:
        client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none")
        async with client.realtime.connect(extra_query={"intent": "transcription"}) as socket:
            await socket.session.update(session=transcription())
            for piece in PIECES:
                await socket.input_audio_buffer.append(audio=piece)
            events, whole = [], []
            async for event in socket:
                events.append(event)
                if event.type.endswith(".completed"):
                    whole.append(event.transcript)
                    if whole == SAID:
                        break
        await client.close()
    names = [event.type for event in events]
    assert names[:3] == [
        "session.created",
        "session.updated",
        "input_audio_buffer.speech_started",
    ]
    deltas = "".join(event.delta for event in events if event.type.endswith(".delta"))
    assert deltas == "".join(SAID)
    assert [event.languages[0].code for event in events if event.type.endswith(".completed")] == [
        "en",
        "en",
    ]


async def test_openai_python_ends_utterances_itself_without_turn_detection() -> None:
    openai = pytest.importorskip("openai")
    async with hearing() as server:
        client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none")
        async with client.realtime.connect(extra_query={"intent": "transcription"}) as socket:
            await socket.session.update(session=transcription(turn_detection=None))
            for piece in PIECES:
                await socket.input_audio_buffer.append(audio=piece)
            await socket.input_audio_buffer.commit()
            async for event in socket:
                assert event.type != "input_audio_buffer.speech_started"
                if event.type.endswith(".completed"):
                    assert event.transcript == " ".join(SAID)
                    break
        await client.close()


async def test_openai_python_translates() -> None:
    openai = pytest.importorskip("openai")
    async with hearing() as server:
        client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none")
        async with client.realtime.translations.connect(model="any") as socket:
            wish = {"output": {"language": "fr"}, "input": {"transcription": {"model": "any"}}}
            await socket.session.update(session={"audio": wish})
            for piece in PIECES:
                await socket.session.input_audio_buffer.append(audio=piece)
            await socket.session.close()
            events = [event async for event in socket]
        await client.close()

    def told(kind: str) -> str:
        named = (one for one in events if one.type == f"session.{kind}_transcript.delta")
        return "".join(one.delta for one in named)

    assert told("input") == "We meet again. On Thursday."
    assert told("output") == "[fr] We meet again. [fr] On Thursday."
    assert events[-1].type == "session.closed"


async def test_openai_python_is_told_what_is_wrong() -> None:
    openai = pytest.importorskip("openai")
    async with hearing() as server:
        client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none")
        async with client.realtime.connect(extra_query={"intent": "transcription"}) as socket:
            await socket.response.create(event_id="mine")
            async for event in socket:
                if event.type == "error":
                    assert (event.error.code, event.error.event_id) == ("unknown_type", "mine")
                    break
        await client.close()


@pytest.mark.clients
@pytest.mark.filterwarnings("ignore")  # of their code
async def test_livekit_hears_with_server_side_turn_detection() -> None:
    livekit = pytest.importorskip("livekit.plugins.openai")
    from livekit import rtc
    from livekit.agents import utils

    async with hearing() as server, utils.http_context.open():
        stt = livekit.STT(
            model="any", language="en", use_realtime=True, base_url=f"{server.url}/v1", api_key="n"
        )
        stream = stt.stream()
        for _ in range(WORDS):
            stream.push_frame(
                rtc.AudioFrame(
                    data=PIECE, sample_rate=24_000, num_channels=1, samples_per_channel=2400
                )
            )
        kinds, whole = [], []
        async for event in stream:
            kinds.append(event.type.value)
            if event.type.value == "final_transcript":
                whole.append(event.alternatives[0].text)
                if whole == SAID:
                    break
        await stream.aclose()
        await stt.aclose()
    assert kinds[:2] == ["start_of_speech", "interim_transcript"]


@pytest.mark.clients
@pytest.mark.filterwarnings("ignore")  # of their code
@pytest.mark.parametrize("server_side", [False, True])
async def test_pipecat_hears_with_its_own_turn_detection_and_with_the_servers(
    server_side: bool,
) -> None:
    pytest.importorskip("pipecat")
    from pipecat.frames import frames
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.worker import PipelineWorker
    from pipecat.processors.frame_processor import FrameDirection
    from pipecat.services.openai.stt import OpenAIRealtimeSTTService
    from pipecat.tests.utils import QueuedFrameProcessor
    from pipecat.workers.runner import WorkerRunner

    async with hearing() as server:
        service = OpenAIRealtimeSTTService(
            api_key="none",
            base_url=server.url.replace("http", "ws") + "/v1/realtime",
            turn_detection={"type": "server_vad"} if server_side else False,
        )
        heard: asyncio.Queue[Any] = asyncio.Queue()
        down = FrameDirection.DOWNSTREAM
        sink = QueuedFrameProcessor(queue=heard, queue_direction=down, ignore_start=True)
        worker = PipelineWorker(Pipeline([service, sink]), enable_rtvi=False)
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        running = asyncio.create_task(runner.run())
        await until(lambda: service._session_ready)
        if not server_side:
            await worker.queue_frame(frames.VADUserStartedSpeakingFrame())
        for _ in range(WORDS):
            piece = frames.InputAudioRawFrame(audio=PIECE, sample_rate=24_000, num_channels=1)
            await worker.queue_frame(piece)
        if not server_side:
            await worker.queue_frame(frames.VADUserStoppedSpeakingFrame())
        expected = SAID if server_side else [" ".join(SAID)]
        texts: list[str] = []
        while texts != expected:
            frame = await heard.get()
            if isinstance(frame, frames.TranscriptionFrame):
                texts.append(frame.text)
        await worker.queue_frame(frames.EndFrame())
        await running
