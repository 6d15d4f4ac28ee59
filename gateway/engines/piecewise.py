"""An engine around an engine: gives a sentence model long texts in pieces.

Owns: when a text is cut for a model, and one stream made of the pieces' streams. Must not know:
where a text may be cut (`gateway.sentences`), any particular engine, who reads the captions.

Models of sentences lose words, and then the thread, in texts longer than those they learned from;
those that are told in prompts what to do (profiles of another kind than ``ids``) do not. A text in
speech recognition's spelling has no marks to cut at, so that is cut at spaces.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from gateway import languages, sentences
from gateway.engines.base import Aborted, Around
from gateway.errors import EngineFault, ErrorCode
from gateway.guards import weight
from gateway.job import Chunk, Job

WHOLE = 200
"""Longest text that is translated in one, as `gateway.guards.weight`: three or four sentences. The
embedded model's chrF falls by 1 to 4 points until there and by 10 at twice as much."""

HALVED = {ErrorCode.TOO_LONG: 8, ErrorCode.REJECTED: 80}
"""Faults that a shorter text may not have, and the weight down to which that is tried. Emoji take
several tokens each, so few of them fill a model; and what loops at length may not in halves."""


class PiecewiseEngine(Around):
    """Wraps ``engine``, as an `Engine` itself: `translate` takes texts of any length.

    The pieces are translated one after another under the job's own id; all but the last are
    finished sentences, whatever the job is. A job with a forced prefix is passed on as it is:
    nothing tells which pieces the prefix already translates. A text without a single letter is its
    own translation: of emoji and figures alone a small model makes anything.

    Only the first piece's chunks have ids: what is put between the pieces has none.
    """

    async def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        if self.profile.kind != "ids" or job.prefix:
            async with aclosing(self.engine.translate(job)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        if not any(map(str.isalpha, job.text)):
            yield Chunk(job.text, 0)
            return
        space = "" if languages.script(job.target) in sentences.UNSPACED else " "
        waiting = deque(cut(job.text, WHOLE))
        done = ""  # the translations of the pieces that are finished, and what follows them
        flags: dict[str, None] = {}
        void = False  # what was shown behind `done` is to be taken back
        self._running.add(job.id)
        try:
            while waiting:
                self._check(job)
                piece, gap = waiting.popleft()
                part = msgspec.structs.replace(job, text=piece, partial=job.partial and not waiting)
                shown = ""
                doubts: tuple[str, ...] = ()
                try:
                    async with aclosing(self.engine.translate(part)) as chunks:
                        async for chunk in chunks:
                            if chunk.reset:
                                shown, doubts, void = "", (), True
                            shown += chunk.text
                            doubts += chunk.flags
                            text = done + shown if void else chunk.text
                            ids = () if done else chunk.ids
                            yield Chunk(text, chunk.tokens, reset=void, ids=ids)
                            void = False
                except EngineFault as fault:
                    if weight(piece) <= HALVED.get(fault.code, math.inf):
                        raise
                    *first, (last, _) = cut(piece, weight(piece) / 2)
                    waiting.extendleft(reversed([*first, (last, gap)]))
                    void = void or shown != ""
                    continue
                done += shown
                flags |= dict.fromkeys(doubts)
                if waiting and (between := gap if "\n" in gap else space):
                    done += between
                    yield Chunk(between, 0)
            self._check(job)
            if void or flags:
                yield Chunk(done if void else "", 0, reset=void, flags=tuple(flags))
        finally:
            self._running.discard(job.id)

    def _check(self, job: Job) -> None:
        """Raise `Aborted` if the job was aborted while the engine itself was not at it."""
        if job.id not in self._running:
            raise Aborted(job.id)


def cut(text: str, most: float) -> list[tuple[str, str]]:
    """The pieces of ``text`` and what stood behind each; one if it weighs ``most`` or less."""
    size = weight(text)
    if size <= most:
        return [(text, "")]
    return sentences.split(text, max(1, int(len(text) * most / size)))
