"""Text formats of other packages."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.core.transcripts import formats
from gateway.core.transcripts.formats import text_formats
from gateway.core.transcripts.transcript import Transcript
from tests.server.routes.test_transcripts import meeting

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "write-format.md"
BROKEN = """
def write(transcript, choice):
    raise ValueError(transcript.utterances[0].text)


from caption_gateway.transcripts import TextFormat

failing = TextFormat("text/plain", write)
"""
POINTS = """[caption_gateway.formats]
md = minutes:markdown
vtt = minutes:markdown
failing = broken:failing
absent = broken:nothing
function = broken:write
"""


@pytest.fixture
def _minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the package of the how-to page, as pip would, and formats that do not work."""
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    (tmp_path / "minutes.py").write_text(example)
    (tmp_path / "broken.py").write_text(BROKEN)
    info = tmp_path / "minutes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: minutes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    text_formats.cache_clear()
    yield
    text_formats.cache_clear()


@pytest.mark.usefixtures("_minutes")
def test_formats_that_cannot_be_used_are_logged_and_own_ones_are_not_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert list(text_formats()) == ["vtt", "srt", "txt", "md", "failing"]
    assert text_formats()["vtt"].write is formats.vtt
    lines = sorted(r.getMessage() for r in caplog.records if r.levelno == logging.ERROR)
    assert len(lines) == 2, "they are looked for once"
    assert lines[0].startswith("the format absent (broken:nothing) cannot be imported: Attribute")
    assert lines[1] == "the format function (broken:write) is no TextFormat"


@pytest.mark.usefixtures("_minutes")
async def test_the_format_of_the_how_to_page_is_served() -> None:
    async with meeting() as (client, _):
        answer = await client.get("demo/transcript.md?lang=de&bilingual=1")
        assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
        assert answer.text == "**Ann:** Good morning. / Guten Morgen.\n"
        assert '"demo.original+de.md"' in answer.headers["content-disposition"]
        assert (await client.get("demo/transcript.md?lang=de,fr,es")).status_code == 400
        fault = (await client.get("demo/transcript.doc")).json()
        assert fault["hint"] == "There are: vtt, srt, txt, json, md, failing."


@pytest.mark.usefixtures("_minutes")
async def test_a_format_that_raises_is_an_error_without_the_text_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with meeting() as (client, _):
        answer = await client.get("demo/transcript.failing")
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "the format failing has failed" in caplog.text
    assert "Good morning" not in caplog.text


@pytest.mark.usefixtures("_minutes")
def test_an_empty_meeting_is_an_empty_file() -> None:
    assert text_formats()["md"].write(Transcript((), complete=True), (None,)) == ""
