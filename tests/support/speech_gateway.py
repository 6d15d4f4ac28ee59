"""A gateway that hears words in any loud sound: a program for the tests of the page.

It prints its address, and runs until it is ended.
"""

from __future__ import annotations

import asyncio
import sys

from gateway.engines.recognition.scripted import ScriptedRecogniser
from tests.support.hearing import hearing
from tests.support.live import running


async def main() -> None:
    async with running() as live, hearing(live, ScriptedRecogniser(languages=("en", "de"))):
        sys.stderr.write(f"{live.http}\n")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
