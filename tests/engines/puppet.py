"""A model whose tokens the test sends, in place of one of CTranslate2."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from gateway.engines.ctranslate2.decode_job import DecodeSink
from gateway.engines.profiles import Profile
from gateway.job import Chunk
from tests.support.live import until

END = "</s>"


class Puppet:
    """A `TranslationModel` controlled by the test: `token` sends one to each job of a batch."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.beams: list[int] = []
        self.rest = ""
        self.unsure, self.p = False, 1.0
        self._tokens = threading.Semaphore(0)
        self._texts: list[tuple[str, str | None]] = []

    @property
    def started(self) -> list[str]:
        return [id for batch in self.batches for id in batch]

    def token(self, text: str, only: str | None = None) -> None:
        """Send a token to the job ``only`` or to the whole batch.

        A full stop or `END` ends a job.
        """
        self._texts.append((text, only))
        self._tokens.release()

    def decode(self, sinks: Sequence[DecodeSink], profile: Profile, beam: int = 1) -> None:
        self.beams.append(beam)
        self.batches.append([sink.job.id for sink in sinks])
        while sinks:
            self._tokens.acquire()
            text, only = self._texts.pop(0)
            meant = [sink for sink in sinks if only in (None, sink.job.id)]
            ended = [
                sink
                for sink in meant
                if text == END or sink.add(Chunk(text, ids=(len(text),))) or text.endswith(".")
            ]
            for sink in ended:
                sink.end(self.rest, unsure=self.unsure, p=self.p)
            sinks = [sink for sink in sinks if sink not in ended]


async def begun(puppet: Puppet, count: int) -> None:
    """Wait until ``count`` jobs are being decoded."""
    await until(lambda: len(puppet.started) >= count)
