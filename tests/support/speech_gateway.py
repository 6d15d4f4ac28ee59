"""A gateway that recognises speech: a program for the tests of the page.

By default it hears words in any loud sound; with the argument ``whisper`` it hears what is said. It
prints its address, and runs until it is ended.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AbstractAsyncContextManager

from benchmarks.speech import material
from gateway.engines.recognition import voice
from gateway.engines.registry import build_recogniser as build
from gateway.engines.scripted import ScriptedRecogniser
from gateway.server.runtime.recognition import RecognitionRunner
from gateway.settings.catalogue import Settings
from tests.support.hearing import hearing
from tests.support.live import Live, running


def whisper(live: Live) -> AbstractAsyncContextManager[RecognitionRunner]:
    """Let a gateway recognise English with the smallest real model."""
    recogniser = build(Settings(recogniser="whisper", recogniser_model=str(material.model())))
    return hearing(live, recogniser, voice.VoiceDetector)


async def main() -> None:
    async with running() as live:
        real = "whisper" in sys.argv
        scripted = ScriptedRecogniser(languages=("en", "de"))
        async with whisper(live) if real else hearing(live, scripted):
            sys.stderr.write(f"{live.http}\n")
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
