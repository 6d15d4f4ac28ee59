"""Speech of the Python client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import pytest
from msgspec.structs import replace

from gateway.client import Client, ConnectionLost, Refused, connect
from gateway.errors import ErrorCode
from gateway.protocol.audio import Audio, HeardSpeech
from gateway.protocol.messages import Final, Welcome
from gateway.protocol.notices import Error
from tests.support.speech_server import INFO, hearing

RATE = 16_000
SECOND = bytes(2 * RATE)


async def finals(client: Client) -> list[str]:
    """Return the texts of the captions, after a `bye`."""
    await client.bye()
    return [event.text async for event in client if isinstance(event, Final)]


@pytest.mark.parametrize("codec", ["json", "msgpack"])
async def test_a_recording_is_sent_in_short_frames_and_captioned(
    codec: Literal["json", "msgpack"],
) -> None:
    async with hearing() as server, connect(server.url, to=("de",), codec=codec) as client:
        await client.send_audio(SECOND, rate=RATE, source="en,de", t0=2.0)
        texts = await finals(client)
    assert texts == ["[de] We meet again.", "[de] On Thursday."]
    assert server.frames == [SECOND[:3200]] * 10
    begun, ended = (asked for asked in server.asked if isinstance(asked, Audio))
    assert (begun.codec, begun.rate, begun.from_, begun.t0) == ("pcm_s16le", RATE, "en,de", 2.0)
    assert ended.codec == "none"


async def test_a_live_source_may_cut_its_samples_anywhere() -> None:
    async def record() -> AsyncIterator[bytes]:
        for at in range(0, len(SECOND), 777):
            yield SECOND[at : at + 777]

    async with hearing() as server, connect(server.url) as client:
        await client.send_audio(record(), rate=RATE)
    assert b"".join(server.frames) == SECOND
    assert all(len(frame) % 2 == 0 for frame in server.frames)


async def test_each_packet_of_opus_is_a_frame() -> None:
    async def record() -> AsyncIterator[bytes]:
        for number in range(40):
            yield b"\xf8" + bytes([number])

    async with hearing() as server, connect(server.url, to=("de",)) as client:
        await client.send_audio(record(), codec="opus")
        await client.send_audio(b"\xf8\xff\xfe", codec="opus")
        texts = await finals(client)
    assert server.frames[:2] == [b"\xf8\x00", b"\xf8\x01"]
    assert texts


async def test_what_is_heard_comes_while_the_audio_is_still_sent() -> None:
    spoken = asyncio.Event()

    async def record() -> AsyncIterator[bytes]:
        yield SECOND[: RATE // 2]
        await spoken.wait()

    async with hearing() as server, connect(server.url) as client:
        sending = asyncio.create_task(client.send_audio(record(), rate=RATE))
        async for event in client:
            if isinstance(event, HeardSpeech):
                assert event.text == "We"
                break
        spoken.set()
        await sending


async def test_audio_that_the_gateway_refuses_raises() -> None:
    async with (
        hearing(refuse=ErrorCode.AUDIO_UNAVAILABLE, info=None) as server,
        connect(server.url) as client,
    ):
        with pytest.raises(Refused) as caught:
            await client.send_audio(SECOND)
    assert caught.value.error.code == "audio_unavailable"


async def test_an_error_about_the_audio_ends_the_sending() -> None:
    async def record() -> AsyncIterator[bytes]:
        while True:
            yield SECOND
            await asyncio.sleep(0)

    broken = Error(code="audio_broken", fatal=False, retry=False, msg="No packet.")
    async with hearing(complain=broken) as server, connect(server.url) as client:
        with pytest.raises(Refused, match="No packet"):
            await client.send_audio(record())


async def test_a_full_window_waits_for_the_gateway_to_settle_some() -> None:
    narrow = replace(INFO, window=0.35)
    async with hearing(info=narrow) as server, connect(server.url, to=("de",)) as client:
        await client.send_audio(SECOND[: RATE * 2 * 5 // 10], rate=RATE)
        assert len(await finals(client)) == 2


async def test_after_a_lost_connection_the_audio_goes_on_from_what_was_heard() -> None:
    numbered = b"".join(number.to_bytes(2, "little") for number in range(RATE))
    async with hearing(cut_after=0.45) as server, connect(server.url, to=("de",)) as client:
        await client.send_audio(numbered, rate=RATE)
        assert server.sockets == 2
    begun = [asked for asked in server.asked if isinstance(asked, Audio) and asked.codec != "none"]
    again = next(index for index, asked in enumerate(begun) if asked.t0)
    start = round(begun[again].t0 * RATE)
    assert begun[again].t0 == 0.3, "the end of the first utterance"
    assert b"".join(server.frames).endswith(numbered[2 * start :])


async def test_a_connection_that_does_not_resume_raises() -> None:
    async with (
        hearing(cut_after=0.3) as server,
        connect(server.url, resume=False) as client,
    ):
        with pytest.raises(ConnectionLost):
            await client.send_audio(SECOND, rate=RATE)
        assert isinstance(client.welcome, Welcome)
