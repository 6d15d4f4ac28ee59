"""The example in Kotlin, compiled, and run by Java against a gateway."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.support.live import running, until
from tests.support.talk import talk

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "kotlin" / "Captions.kt"


async def test_the_reader_in_kotlin_prints_captions(tmp_path: Path) -> None:
    compiler, java = shutil.which("kotlinc"), shutil.which("java")
    if compiler is None or java is None:
        pytest.skip("The example needs the Debian packages kotlin and openjdk-17-jdk-headless.")
    jar = str(tmp_path / "captions.jar")
    compiling = await asyncio.create_subprocess_exec(
        compiler, str(EXAMPLE), "-include-runtime", "-d", jar
    )
    assert await compiling.wait() == 0
    async with running() as live, talk(live, "?room=demo&from=en&to=de") as speaker:
        pipe = asyncio.subprocess.PIPE
        args = ("-jar", jar, live.ws, "demo", "de")
        reader = await asyncio.create_subprocess_exec(java, *args, stdout=pipe)
        assert reader.stdout is not None
        await until(lambda: len(live.hub.sessions) == 2)
        await speaker.send({"type": "say", "text": "Good morning 字幕"})
        await speaker.until("final")
        await live.hub.forget("demo")
        printed = (await reader.stdout.read()).decode()
        assert await reader.wait() == 0
    assert "[de] Good morning 字幕" in printed
    assert printed.endswith("closed: 4410\n")
