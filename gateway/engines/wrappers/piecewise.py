"""An engine around an engine: gives a sentence model long texts in pieces.

Owns: when a text is split for a model, and joining the outputs of the pieces into one stream. Must
not know: where a text may be split (`gateway.text.sentences`), any particular engine.

Models that were trained on sentences omit words in longer texts, and then translate something else.
Models with prompts (profiles of another kind than ``ids``) do not.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque

import msgspec

from gateway.engines.base.engine import EngineWrapper, OpenSinks, Sink, SinkWrapper
from gateway.engines.guards.measures import weight
from gateway.engines.profiles import Profile
from gateway.errors import EngineFault, ErrorCode, JobFault
from gateway.job import Chunk, Job, merged
from gateway.text import languages, sentences
from gateway.text.word_units import CJK, THAI, UNSPACED

WORD_MOST = 80
"""Longest word that is given to the model, in letters and digits. The longest in 180,000 sentences
has 38 letters. A model writes nonsense about a longer one, for seconds of CPU time."""

WHOLE_TEXT_WEIGHT = 200
"""Longest text that is translated as a whole, as `gateway.engines.guards.measures.weight`: three or
four sentences. Up to there the embedded model's chrF falls by 1 to 4 points, at twice as much by
10."""

LONG_WORD = re.compile(rf"[^\W_{CJK}{THAI}]{{{WORD_MOST + 1}}}")
"""A longer word, in a script that puts spaces between words."""

HALF_RETRY_WEIGHT = {ErrorCode.TOO_LONG: 8, ErrorCode.REJECTED: 80}
"""Faults for which a piece is tried again in halves, and the least weight of a piece to halve.
Emoji take several tokens each, so few of them fill a model; and a model that loops on a long text
may not loop on its halves."""


class PiecewiseEngine(EngineWrapper):
    """An `Engine` around ``engine`` that accepts texts of any length.

    The pieces are translated one after another under the id of the job. All but the last are
    finished sentences, even if the job is partial. A text without a letter is its own translation,
    because a small model turns emoji and digits alone into anything. Only the chunks of the first
    piece have token ids, because the text between two pieces has none.
    """

    def submit(self, job: Job, sink: Sink) -> None:
        profile = self.profile
        if not isinstance(profile, Profile) or profile.kind != "ids":
            self.engine.submit(job, sink)
        elif LONG_WORD.search(job.text):
            what = f"The text has a word of more than {WORD_MOST} letters and digits."
            wrapper = SinkWrapper(self._open_sinks, job, sink)
            fault = JobFault(what, ErrorCode.TOO_LONG)
            asyncio.get_running_loop().call_soon(wrapper.finish, fault)
        # Nothing tells which pieces a forced prefix already translates, so that such a job stays
        # whole.
        elif job.prefix:
            self.engine.submit(job, sink)
        elif any(map(str.isalpha, job.text)):
            PiecewiseSink(self, self._open_sinks, job, sink).start_next_piece()
        else:
            wrapper = SinkWrapper(self._open_sinks, job, sink)
            asyncio.get_running_loop().call_soon(_echo_source, wrapper)


def _echo_source(wrapper: SinkWrapper) -> None:
    """Send the source as its own translation."""
    wrapper.chunk(Chunk(wrapper.job.text, 0))
    wrapper.finish(None)


class PiecewiseSink(SinkWrapper):
    """One job in pieces. Its receiver may abort the job whenever it gets a chunk."""

    def __init__(
        self, engine: PiecewiseEngine, open_sinks: OpenSinks, job: Job, sink: Sink
    ) -> None:
        super().__init__(open_sinks, job, sink)
        self.engine = engine
        self.pending = deque(split_text(job.text, WHOLE_TEXT_WEIGHT, job.source))
        self.piece = self.space_after = ""  # the current piece, and the white space after it
        self.finished_text = ""  # translations of finished pieces, with the space after each
        self.piece_output: list[str] = []  # texts of the current piece's chunks
        self.piece_flags: tuple[str, ...] = ()  # flags of the current piece
        self.piece_p = 1.0  # probability that the current piece is right
        self.flags: dict[str, None] = {}  # flags of finished pieces, in order
        self.p = 1.0  # probability that the finished pieces are right
        self.reset_pending = False  # the output after `finished_text` is void
        self.counts = Chunk("", 0)  # chunks without text, for their counts and ids

    def start_next_piece(self) -> None:
        """Submit the next piece to the inner engine."""
        self.piece, self.space_after = self.pending.popleft()
        self.piece_output, self.piece_flags, self.piece_p = [], (), 1.0
        job = self.job
        if self.piece != job.text:
            partial = job.partial and not self.pending
            job = msgspec.structs.replace(job, text=self.piece, partial=partial, needed=0)
        if self.finished_text:  # the rest of the draft, unless the output has left it
            follows = job.draft.startswith(self.finished_text)
            draft = job.draft[len(self.finished_text) :] if follows else ""
            job = msgspec.structs.replace(job, draft=draft, prefix_ids=())
        self.engine.engine.submit(job, self)

    def chunk(self, chunk: Chunk) -> None:
        if not self.live:
            return
        if chunk.reset:
            self.piece_output, self.piece_flags, self.piece_p = [], (), 1.0
            self.reset_pending = True
        self.piece_output.append(chunk.text)
        judged = chunk.flags or chunk.p < 1
        if judged:
            self.piece_flags += chunk.flags
            self.piece_p *= chunk.p
        if not (self.reset_pending or self.finished_text or judged):
            self.sink.chunk(chunk)
            return
        # A reset voids the output of all pieces, so the finished ones are sent again with it.
        text = self.finished_text + "".join(self.piece_output) if self.reset_pending else chunk.text
        ids = () if self.finished_text else chunk.ids
        reset, self.reset_pending = self.reset_pending, False
        chunk = msgspec.structs.replace(chunk, text=text, reset=reset, flags=(), ids=ids, p=1.0)
        if text or reset:
            self.sink.chunk(chunk)
        else:  # the inner engine's last chunk may have flags alone, which wait for the end
            self.counts = merged(self.counts, chunk)

    def end(self, fault: EngineFault | None) -> None:
        if not self.live:
            return
        if fault is None:
            self._finish_piece()
        elif weight(self.piece) <= HALF_RETRY_WEIGHT.get(fault.code, math.inf):
            self.finish(fault)
        else:
            *first, (last, _) = split_text(self.piece, weight(self.piece) / 2, self.job.source)
            self.pending.extendleft(reversed([*first, (last, self.space_after)]))
            self.reset_pending = self.reset_pending or any(self.piece_output)
            self.start_next_piece()

    def _finish_piece(self) -> None:
        """Keep the translation of the current piece, and begin the next one or end the job."""
        self.finished_text += "".join(self.piece_output)
        self.flags |= dict.fromkeys(self.piece_flags)
        self.p *= self.piece_p
        if self.pending:
            unspaced = languages.script(self.job.target) in UNSPACED
            between = self.space_after if "\n" in self.space_after else "" if unspaced else " "
            if between:
                self.finished_text += between
                self.sink.chunk(Chunk(between, 0))
            if self.live:  # the receiver may have aborted the job
                self.start_next_piece()
            return
        if self.reset_pending or self.flags or self.p < 1:
            text = self.finished_text if self.reset_pending else ""
            last = Chunk(text, 0, reset=self.reset_pending, flags=tuple(self.flags), p=self.p)
            self.sink.chunk(merged(self.counts, last))
        self.finish(None)


def split_text(text: str, most: float, lang: str) -> list[tuple[str, str]]:
    """Split ``text`` into (piece, white space after it), unless it weighs at most ``most``."""
    size = weight(text)
    if size <= most:
        return [(text, "")]
    return sentences.split(text, max(1, int(len(text) * most / size)), lang)
