"""An engine around an engine: gives a sentence model long texts in pieces.

Owns: when a text is cut for a model, and one stream made of the pieces' streams. Must not know:
where a text may be cut (`gateway.text.sentences`), any particular engine, who reads the captions.

Models of sentences lose words, and then the thread, in texts longer than those they learned from;
those that are told in prompts what to do (profiles of another kind than ``ids``) do not. A text in
speech recognition's spelling has no marks to cut at, so that is cut at spaces.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque

import msgspec

from gateway.engines.base.engine import EngineWrapper, Sink, SinkWrapper
from gateway.engines.guards.words import weight
from gateway.errors import EngineFault, ErrorCode
from gateway.job import Chunk, Job
from gateway.text import sentences, units

WHOLE = 200
"""Longest text that is translated in one, as `gateway.engines.guards.stream.weight`: three or four
sentences. The embedded model's chrF falls by 1 to 4 points until there and by 10 at twice as
much."""

HALVED = {ErrorCode.TOO_LONG: 8, ErrorCode.REJECTED: 80}
"""Faults that a shorter text may not have, and the weight down to which that is tried. Emoji take
several tokens each, so few of them fill a model; and what loops at length may not in halves."""


class PiecewiseEngine(EngineWrapper):
    """Wraps ``engine``, as an `Engine` itself, which takes texts of any length.

    The pieces are translated one after another under the job's own id; all but the last are
    finished sentences, whatever the job is. A job with a forced prefix is passed on as it is:
    nothing tells which pieces the prefix already translates. A text without a single letter is its
    own translation: of emoji and figures alone a small model makes anything.

    Only the first piece's chunks have ids: what is put between the pieces has none.
    """

    def submit(self, job: Job, sink: Sink) -> None:
        if self.profile.kind != "ids" or job.prefix:
            self.engine.submit(job, sink)
        elif any(map(str.isalpha, job.text)):
            PiecewiseSink(self, self._open_sinks, job, sink).next()
        else:
            wrapper = SinkWrapper(self._open_sinks, job, sink)
            asyncio.get_running_loop().call_soon(_repeat, wrapper)


def _repeat(wrapper: SinkWrapper) -> None:
    """A text that is its own translation."""
    wrapper.chunk(Chunk(wrapper.job.text, 0))
    wrapper.finish(None)


class PiecewiseSink(SinkWrapper):
    """One job in pieces. Whoever gets a chunk may abort the job."""

    __slots__ = ("done", "doubts", "engine", "flags", "gap", "piece", "shown", "void", "waiting")

    def __init__(
        self, engine: PiecewiseEngine, open_sinks: dict[str, SinkWrapper], job: Job, sink: Sink
    ) -> None:
        super().__init__(open_sinks, job, sink)
        self.engine = engine
        self.waiting = deque(cut(job.text, WHOLE, job.source))
        self.piece = self.gap = ""  # that is being translated, and what stood behind it
        self.done = ""  # the translations of the pieces that are finished, and what follows them
        self.shown: list[str] = []  # of the piece
        self.doubts: tuple[str, ...] = ()  # about the piece
        self.flags: dict[str, None] = {}  # all doubts
        self.void = False  # what was shown behind `done` is to be taken back

    def next(self) -> None:
        """Have the next piece translated."""
        self.piece, self.gap = self.waiting.popleft()
        self.shown, self.doubts = [], ()
        job = self.job
        if self.piece != job.text:
            partial = job.partial and not self.waiting
            job = msgspec.structs.replace(job, text=self.piece, partial=partial)
        self.engine.engine.submit(job, self)

    def chunk(self, chunk: Chunk) -> None:
        if not self.live:
            return
        if chunk.reset:
            self.shown, self.doubts, self.void = [], (), True
        self.shown.append(chunk.text)
        self.doubts += chunk.flags
        if not (self.void or self.done or chunk.flags):
            self.sink.chunk(chunk)
            return
        text = self.done + "".join(self.shown) if self.void else chunk.text
        ids = () if self.done else chunk.ids
        void, self.void = self.void, False
        self.sink.chunk(Chunk(text, chunk.tokens, reset=void, ids=ids))

    def end(self, fault: EngineFault | None) -> None:
        if not self.live:
            return
        if fault is None:
            self._ended()
        elif weight(self.piece) <= HALVED.get(fault.code, math.inf):
            self.finish(fault)
        else:
            *first, (last, _) = cut(self.piece, weight(self.piece) / 2, self.job.source)
            self.waiting.extendleft(reversed([*first, (last, self.gap)]))
            self.void = self.void or any(self.shown)
            self.next()

    def _ended(self) -> None:
        """The piece is translated."""
        self.done += "".join(self.shown)
        self.flags |= dict.fromkeys(self.doubts)
        if self.waiting:
            spaced = units.spaced(self.job.target)
            between = self.gap if "\n" in self.gap else " " if spaced else ""
            if between:
                self.done += between
                self.sink.chunk(Chunk(between, 0))
            if self.live:
                self.next()
            return
        if self.void or self.flags:
            text = self.done if self.void else ""
            self.sink.chunk(Chunk(text, 0, reset=self.void, flags=tuple(self.flags)))
        self.finish(None)


def cut(text: str, most: float, lang: str) -> list[tuple[str, str]]:
    """Cut ``text`` into (piece, white space behind it); one where it weighs at most ``most``.

    ``lang`` is the language of the text.
    """
    size = weight(text)
    if size <= most:
        return [(text, "")]
    return sentences.split(text, max(1, int(len(text) * most / size)), lang)
