"""Tests of the sessions that keep the jobs of a room and language on one replica."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from gateway.engines.openai.server import session_id
from gateway.job import Job
from tests.engines.openai_factory import serving
from tests.engines.reading import read


def job(room: str, target: str = "de") -> Job:
    return Job(id=f"{room}-{target}", text="Good morning!", source="en", target=target, room=room)


def test_the_name_of_a_session_hides_the_room_and_shows_the_language() -> None:
    name = session_id("acme-quarterly", "zh-Hant")
    assert re.fullmatch(r"[0-9a-f]{16}\.zh-Hant", name)
    assert name != session_id("acme-quarterly", "de")
    assert name != session_id("acme-yearly", "zh-Hant")


@pytest.mark.parametrize("room", ["会議", "совещание", "اجتماع", "~0123456789abcdef", "a" * 1000])
def test_the_name_of_a_session_can_be_sent_in_a_header_whatever_the_room(room: str) -> None:
    name = session_id(room, "de")
    assert name.isascii() and len(name) < 64


def test_another_process_gives_a_session_the_same_name() -> None:
    code = "from gateway.engines.openai.server import session_id; print(session_id('r', 'de'))"
    command = [sys.executable, "-c", code]
    other = subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    assert other == session_id("r", "de")


async def test_jobs_of_one_room_and_language_have_one_session() -> None:
    async with serving() as (server, engine):
        jobs = [job("r"), job("r"), job("r", "fr"), job("s"), job("")]
        for one in jobs:
            await read(engine, one)
        sent = [received.headers.get("x-session-id") for received in server.received]
    assert sent == [session_id(one.room, one.target) if one.room else None for one in jobs]
    assert "r" not in str(sent[0]).partition(".")[0]
