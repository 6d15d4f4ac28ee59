"""``gateway listen``: a file, a pipe and what goes wrong."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import sys
import wave
from pathlib import Path

import pytest

from gateway.cli import listen
from gateway.cli.terminal import Screen
from gateway.errors import ErrorCode
from gateway.protocol.audio import Audio, AudioState, HeardSpeech
from gateway.protocol.messages import Failed
from gateway.protocol.notices import Error
from tests.support.command import fails, run
from tests.support.speech_server import Hearing, hearing
from tests.support.subprocesses import started, until_output_waits

pytestmark = pytest.mark.usefixtures("bare")

ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")


def recorded(seconds: float = 0.6) -> bytes:
    """Return a WAV file of silence with 8,000 samples per second in stereo."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(2)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(bytes(round(8000 * seconds) * 4))
    return file.getvalue()


async def listened(server: Hearing, *argv: object) -> int:
    """Run the command beside the server, in a thread with a loop of its own."""
    return await asyncio.to_thread(run, "listen", *argv, "--url", server.url)


@ffmpeg
async def test_a_file_is_captioned_and_saved_in_all_languages(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sound, saved = tmp_path / "talk.wav", tmp_path / "talk.vtt"
    sound.write_bytes(recorded())
    async with hearing() as server:
        assert await listened(server, sound, "--to", "de,fr", "--from", "en", "--save", saved) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "We meet again.",
        "[de] [de] We meet again.",
        "[fr] [fr] We meet again.",
        "On Thursday.",
        "[de] [de] On Thursday.",
        "[fr] [fr] On Thursday.",
    ]
    assert err.startswith("# saved ")
    begun = next(asked for asked in server.asked if isinstance(asked, Audio))
    assert (begun.codec, begun.rate) == ("pcm_s16le", 16_000)
    assert sum(map(len, server.frames)) == pytest.approx(0.6 * 2 * 16_000, abs=200)
    original = saved.read_text("utf-8")
    assert "00:00:00.000 --> " in original and "We meet again." in original
    assert "[fr] On Thursday." in (tmp_path / "talk.fr.vtt").read_text("utf-8")
    assert "00:00:00,300 --> " not in original


@ffmpeg
async def test_a_pipe_is_read_as_it_comes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sound = tmp_path / "talk.wav"
    sound.write_bytes(recorded())
    before = os.dup(0)
    with sound.open("rb") as stdin:
        os.dup2(stdin.fileno(), 0)
        try:
            async with hearing() as server:
                assert await listened(server, "-", "--to", "de") == 0
        finally:
            os.dup2(before, 0)
            os.close(before)
    assert capsys.readouterr().out.splitlines()[1] == "[de] We meet again."


@ffmpeg
async def test_subtitles_begin_when_the_words_were_spoken(tmp_path: Path) -> None:
    sound, saved = tmp_path / "talk.wav", tmp_path / "talk.srt"
    sound.write_bytes(recorded())
    async with hearing() as server:
        await listened(server, sound, "--save", saved)
    assert saved.read_text("utf-8").startswith("1\n00:00:00,000 --> ")
    assert "\n2\n00:00:00," in saved.read_text("utf-8")


@ffmpeg
async def test_ffmpeg_ends_with_the_one_who_wants_its_sound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "talk.wav"
    file.write_bytes(recorded(60.0))
    processes = started(monkeypatch)
    screen = listen.SpeechScreen(Screen(io.StringIO()), several=False)
    async with listen._decoded(str(file), screen) as sound:
        assert await anext(sound)
        await until_output_waits(processes[0])
    assert processes[0].returncode is not None


@ffmpeg
async def test_a_recording_without_speech_saves_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sound, saved = tmp_path / "talk.wav", tmp_path / "talk.srt"
    sound.write_bytes(recorded())
    async with hearing(script=()) as server:
        assert await listened(server, sound, "--save", saved) == 0
    assert capsys.readouterr().err == "# No speech was heard.\n"
    assert not saved.exists()


@ffmpeg
async def test_what_is_no_sound_is_named_with_the_reason_that_ffmpeg_gives(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with hearing() as server:
        assert await listened(server, tmp_path / "none.wav") == 1
        (tmp_path / "text.wav").write_text("no sound", encoding="utf-8")
        assert await listened(server, tmp_path / "text.wav") == 1
    err = capsys.readouterr().err
    assert "No such file" in err and "Invalid data" in err
    assert "Traceback" not in err


@ffmpeg
async def test_a_gateway_that_does_not_recognise_speech_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sound = tmp_path / "talk.wav"
    sound.write_bytes(recorded())
    async with hearing(refuse=ErrorCode.AUDIO_UNAVAILABLE, info=None) as server:
        assert await listened(server, sound) == 1
    assert capsys.readouterr().err == "gateway: No.\n"


async def test_without_ffmpeg_the_command_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    async with hearing() as server:
        assert await listened(server, "-") == 1
    assert "apt install ffmpeg" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("platform", "device"), [("linux", "pulse"), ("darwin", "avfoundation"), ("win32", "dshow")]
)
def test_without_a_file_the_command_shows_how_to_send_the_microphone(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
    device: str,
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert run("listen") == 2
    err = capsys.readouterr().err
    assert f"-f {device}" in err and "| gateway listen -" in err


def test_a_format_that_cannot_be_saved_is_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("listen", "talk.wav", "--save", "talk.doc") == 1
    assert "ends in .vtt, .srt or .txt" in capsys.readouterr().err
    assert run("listen", "talk.wav", "--save", "nowhere/talk.vtt") == 1
    assert "There is no directory nowhere" in capsys.readouterr().err


class Terminal(io.StringIO):
    """A terminal that keeps all output."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_what_is_growing_and_how_much_of_the_file_is_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = Terminal()
    terminal = Screen(out)
    screen = listen.SpeechScreen(terminal, several=False)
    screen.total = 100.0
    screen.note(HeardSpeech(id="a-1", rev=1, lang="en", text="We meet", t0=0, t1=1))
    screen.note(AudioState(codec="pcm_s16le", rate=16_000, from_="en", seconds=50.0))
    assert "We meet\n" in out.getvalue()
    assert "█" * 15 + "░" * 15 + "  50%  0:50 of 1:40" in out.getvalue()
    screen.note(Error(code="audio_too_fast", fatal=False, retry=True, msg="Too fast."))
    screen.note(Failed(seq=1, id="a-1", rev=1, ord=1, lang="de", code="timeout", retry=True))
    for lost in (2.5, 2.5, 4.0):
        screen.note(AudioState(codec="pcm_s16le", rate=16_000, from_="en", seconds=60.0, lost=lost))
    assert capsys.readouterr().err.splitlines() == [
        "gateway: Too fast.",
        "gateway: [de] not translated: timeout",
        "gateway: 2.5 s of speech were not recognised: the gateway is late.",
        "gateway: 1.5 s of speech were not recognised: the gateway is late.",
    ]
    assert screen.failed == 1
    terminal.draw([])
    assert out.getvalue().endswith("\x1b[J")


def test_a_missing_file_is_named_before_the_gateway_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ("--url", "ws://127.0.0.1:1", "--to", "de")
    status, err = fails(capsys, "listen", "nowhere.mp4", *flags)
    assert (status, err) == (1, "gateway: nowhere.mp4: No such file or directory\n")
