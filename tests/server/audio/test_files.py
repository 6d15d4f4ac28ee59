"""Files of sound that strangers send, decoded in a process of their own."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gateway.errors import ClientFault, ErrorCode
from gateway.server.audio import decoding, file_decoder, files
from tests.support.hearing import tone
from tests.support.sound_files import encoded, silent_film, wav
from tests.support.subprocesses import started, until_output_waits

WITHOUT_SOUND = {
    "text": b"no sound, but a letter. " * 100,
    "nothing": b"",
    "a playlist": b"#EXTM3U\n#EXTINF:5,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n",
    "a list of files": b"ffconcat version 1.0\nfile /etc/hostname\n",
    "a film without sound": silent_film(),
    "a head alone": wav(b"", width=3),
}


async def pcm(file: bytes) -> tuple[int, bytes]:
    """Return the rate and the samples of a file."""
    async with files.opened(file) as sound:
        return sound.rate, b"".join([piece async for piece in sound.pieces])


@pytest.mark.parametrize(
    ("format", "codec"),
    [
        ("mp3", "mp3"),
        ("ogg", "libopus"),
        ("webm", "libopus"),
        ("flac", "flac"),
        ("ipod", "aac"),
        ("adts", "aac"),
        ("wav", "pcm_s24le"),
        ("wav", "pcm_mulaw"),
    ],
)
async def test_a_file_of_each_usual_format_keeps_its_length_and_pitch(
    format: str, codec: str
) -> None:
    rate, samples = await pcm(encoded(tone(2.0, 48_000), format, codec))
    assert rate == 16_000
    assert len(samples) / 32_000 == pytest.approx(2.0, abs=0.1)
    spectrum = np.abs(np.fft.rfft(np.frombuffer(samples, "<i2")[4_000:20_000]))
    assert float(spectrum.argmax()) == pytest.approx(220, abs=2)


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
async def test_plain_wav_of_two_channels_is_read_without_a_process(
    rate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "DECODER", ("no such program",))
    one = np.frombuffer(tone(1.0, rate), "<i2")
    both = np.stack((one, np.zeros_like(one)), axis=1)
    got_rate, samples = await pcm(wav(both.tobytes(), rate, channels=2))
    assert got_rate == rate
    assert np.abs(np.frombuffer(samples, "<i2") - one / 2).max() <= 1


async def test_a_file_that_is_cut_off_has_its_beginning() -> None:
    whole = wav(tone(2.0))
    assert len((await pcm(whole[:33_001]))[1]) == pytest.approx(32_956, abs=2)
    half = encoded(tone(2.0, 48_000), "mp3", "mp3")
    assert 16_000 < len((await pcm(half[: len(half) // 2]))[1]) < 40_000


async def test_a_packet_that_is_broken_is_left_out() -> None:
    file = bytearray(encoded(tone(3.0, 48_000), "mp3", "mp3"))
    file[len(file) // 2 : len(file) // 2 + 300] = bytes(300)
    assert len((await pcm(bytes(file)))[1]) > 80_000


@pytest.mark.parametrize("what", WITHOUT_SOUND)
async def test_a_file_without_sound_is_refused(what: str) -> None:
    with pytest.raises(ClientFault, match="no sound that can be read") as fault:
        await pcm(WITHOUT_SOUND[what])
    assert fault.value.code is ErrorCode.AUDIO_UNSUPPORTED


async def test_a_file_that_kills_its_decoder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    crash = (sys.executable, "-c", "import os; os.abort()")
    monkeypatch.setattr(files, "DECODER", crash)
    with pytest.raises(ClientFault, match="too much time or memory"):
        await pcm(b"a file")


async def test_a_decoder_ends_with_the_one_who_wants_its_sound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "DECODER", (sys.executable, "-c", "while True: print('x' * 999)"))
    processes = started(monkeypatch)
    async with files.opened(b"a file") as sound:
        assert await anext(sound.pieces)
        await until_output_waits(processes[0])
    assert processes[0].returncode is not None


async def test_a_decoder_is_given_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_ISSUER_SECRET", "a secret")
    show = "import os, sys; sys.stdout.write(repr(dict(os.environ)))"
    monkeypatch.setattr(files, "DECODER", (sys.executable, "-c", show))
    assert b"a secret" not in (await pcm(b"a file"))[1]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems bound less")
@pytest.mark.parametrize(
    ("work", "end"),
    [
        ("bytearray(2 << 30)", b"MemoryError"),
        ("open('written', 'wb', 0).write(b'x')", b"File too large"),
        ("while True: pass", b""),
    ],
)
def test_a_decoder_takes_no_more_than_its_memory_its_time_and_no_disk(
    work: str, end: bytes, tmp_path: Path
) -> None:
    begin = "from gateway.server.audio import file_decoder as d; d.CPU_S = 1; d._limit()"
    ended = subprocess.run(
        [sys.executable, "-c", f"{begin}\n{work}"], capture_output=True, cwd=tmp_path
    )
    assert ended.returncode != 0
    assert end in ended.stderr


async def test_without_ffmpeg_plain_wav_is_read_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mp3 = encoded(tone(1.0, 48_000), "mp3", "mp3")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for cached in (decoding.codecs, decoding.rates):
        cached.cache_clear()
    try:
        assert await pcm(wav(tone(1.0))) == (16_000, tone(1.0))
        for other in (mp3, wav(tone(1.0, 44_100), 44_100)):
            with pytest.raises(ClientFault, match=r"WAV of 16 bit and 16000") as fault:
                await pcm(other)
            assert "caption-gateway[speech]" in (fault.value.hint or "")
    finally:
        for cached in (decoding.codecs, decoding.rates):
            cached.cache_clear()


def test_a_rate_that_changes_within_a_file_is_followed() -> None:
    both = encoded(tone(1.0, 48_000), "mp3", "mp3") + encoded(
        tone(1.0, 24_000), "mp3", "mp3", 24_000
    )
    samples = b"".join(file_decoder.decoded(io.BytesIO(both)))
    assert len(samples) / 32_000 == pytest.approx(2.0, abs=0.2)
