"""The programs on the pages run: each against a gateway with a scripted engine."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.client import connect
from gateway.protocol.notices import Presence
from tests.docs.pages import PAGES, name
from tests.support.live import in_thread, until

RUN = "asyncio.run(main())\n"
PROGRAMS = [
    pytest.param(page, code, id=f"{name(page)}:{number}")
    for page in PAGES
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    )
    if RUN in code
]


async def read(main: Callable[[], Awaitable[None]], url: str, printed: Callable[[], str]) -> None:
    """Run a program that reads for ever until it has printed something."""
    async with connect(url, room="demo", source="en", to=["de"]) as speaker:
        program = asyncio.ensure_future(main())
        async for event in speaker:
            if isinstance(event, Presence) and event.members == 2:
                break
        await speaker.say("good morning everybody")
        await until(lambda: program.done() or bool(printed()))
        if program.done():
            await program
        program.cancel()
        await asyncio.wait([program])


def test_the_pages_have_programs() -> None:
    assert len(PROGRAMS) >= 3


@pytest.mark.parametrize(("page", "code"), PROGRAMS)
def test_a_program_of_a_page_runs(
    page: Path, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with in_thread() as live:
        program: dict[str, object] = {}
        exec(code.replace("ws://127.0.0.1:8000", live.ws).replace(RUN, ""), program)
        main = program["main"]
        assert callable(main)
        if "async for" in code:
            asyncio.run(read(main, live.ws, lambda: capsys.readouterr().out))
        else:
            asyncio.run(main())
            assert capsys.readouterr().out
