"""Reading of the formats by FFmpeg."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.core.transcripts import formats
from gateway.core.transcripts.formats import Choice
from tests.support.history import History

FFMPEG = shutil.which("ffmpeg")

LINES = {
    formats.vtt: ("<b>a & b</b> --> c", "42"),
    formats.srt: ("A&B ‹x>: ‹b>a & b‹/b> --› c", "A&B ‹x>: 42"),
}
"""Texts of `meeting` as a player shows them."""

pytestmark = pytest.mark.skipif(FFMPEG is None, reason="needs ffmpeg (.ci/run installs it)")


def meeting() -> History:
    """Return a transcript with names and texts that need escaping."""
    history = History()
    texts = [
        "We meet again on Thursday at nine, in the large room on the second floor, and please "
        "bring the figures for the third quarter. Mr. Smith will not be there.",
        "<b>a & b</b> --> c",
        "00:00:01.000 --> 00:00:02.000",
        "NOTE that {\\an8} is nothing",
        "42",
    ]
    for n, text in enumerate(texts):
        speaker = ("Ann", "A&B <x>", None)[n % 3]
        history.say(("NOTE", f"u{n}")[n > 0], text, at=20.0 * (n + 1), speaker=speaker)
        history.caption(("NOTE", f"u{n}")[n > 0], "zh", "请带上第三季度的数字。" * (n + 1))
    history.fail("u4", "zh")
    return history


def ffmpeg(path: Path, *options: str) -> str:
    """Convert a file with FFmpeg, which must print no warning."""
    assert FFMPEG is not None
    command = [FFMPEG, "-nostdin", "-v", "warning", "-xerror", "-i", str(path), *options, "-"]
    done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().replace("\r\n", "\n")


def read(path: Path) -> list[tuple[int, int]]:
    """Return (begin, duration) in milliseconds of each cue that FFmpeg finds."""
    rows = re.findall(
        r"^0, *\d+, *(\d+), *(\d+),",
        ffmpeg(path, "-map", "0", "-c", "copy", "-f", "framecrc"),
        re.M,
    )
    return [(int(begin), int(length)) for begin, length in rows]


def written(path: Path) -> list[tuple[int, int]]:
    """Return (begin, duration) in milliseconds of each cue in the file."""
    time = r"(\d\d):(\d\d):(\d\d)[.,](\d{3})"
    cues = []
    for found in re.findall(
        rf"^[^\n]+\n{time} --> {time}\n", path.read_text(encoding="utf-8"), re.M
    ):
        h, m, s, ms, *end = map(int, found)
        begin = ((h * 60 + m) * 60 + s) * 1000 + ms
        h, m, s, ms = end
        cues.append((begin, ((h * 60 + m) * 60 + s) * 1000 + ms - begin))
    return cues


@pytest.mark.parametrize("choice", [(None,), ("zh",), (None, "zh")], ids=["original", "zh", "both"])
@pytest.mark.parametrize("write", [formats.vtt, formats.srt], ids=["vtt", "srt"])
def test_ffmpeg_reads_every_cue_with_its_time(tmp_path: Path, write: Any, choice: Choice) -> None:
    path = tmp_path / f"x.{write.__name__}"
    path.write_text(write(meeting().read(), choice), encoding="utf-8")
    assert len(written(path)) >= 6
    assert read(path) == written(path)


@pytest.mark.parametrize("write", [formats.vtt, formats.srt], ids=["vtt", "srt"])
def test_ffmpeg_shows_the_texts_and_neither_names_nor_tags(tmp_path: Path, write: Any) -> None:
    path = tmp_path / f"x.{write.__name__}"
    path.write_text(write(meeting().read(), (None,)), encoding="utf-8")
    shown = ffmpeg(path, "-c:s", "text", "-f", "srt")
    for line in LINES[write]:
        assert f"\n{line}\n\n" in shown
