"""One job of a batch that CTranslate2 decodes: its input, and the handling of its output tokens.

Owns: when a job ends, and how sure the model is of its output. Must not know: models, batches, how
a token is chosen (`gateway.engines.ctranslate2.model`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.engines.base.tokenizer import Detokenizer, PieceDetokenizer
from gateway.engines.profiles.doubt import Doubt
from gateway.errors import GatewayError
from gateway.job import Chunk, Job


class DecodeSink(Protocol):
    """A job and the receiver of its output. CTranslate2 calls it in its own threads.

    Neither the sink nor the callback around it may hold a reference to the model: CTranslate2 drops
    both in one of the model's threads, and a model that is freed there ends the process.
    """

    @property
    def job(self) -> Job:
        """The job to translate."""

    def add(self, chunk: Chunk) -> bool:
        """Receive the next piece of the output, and return whether this job is to stop.

        :param chunk: a token, whose text is often empty; the accepted beginning of the draft; or
            the whole output of a beam search. Control tokens have no id. The first chunk also has
            the ids of the forced prefix
        """

    def end(
        self,
        rest: str = "",
        fault: GatewayError | None = None,
        *,
        unsure: bool = False,
        p: float = 1.0,
    ) -> None:
        """Receive the end of the job.

        :param rest: text that was withheld until the end
        :param fault: why the job could not be completed
        :param unsure: whether the output is more likely to be wrong than a reader should accept
        :param p: probability that the output is right; 1 if it is not known
        """


@dataclass(slots=True, eq=False)
class DecodeJob:
    """One job of a batch: its input tokens, and the handling of its output tokens."""

    sink: DecodeSink
    tokens: list[str]
    """The input."""
    left: int
    """Most tokens of the rest of the output. CTranslate2 knows only the largest of a batch."""
    ids: list[int]
    """Ids that the sink has not received yet, at first those of the forced prefix."""
    text: Detokenizer | PieceDetokenizer
    """Spells the output, which follows the forced prefix."""
    start: list[str] = field(default_factory=list)
    """Tokens with which the output of an encoder-decoder begins."""
    draft: list[int] = field(default_factory=list)
    """Ids that the output is likely to begin with."""
    doubt: Doubt | None = None
    """Judgement of an output by its tokens. None: no output is unsure, not even if its
    limit ends the output."""
    direction: str = ""
    """The model's own tags of the languages, such as ``en-de``, by which `doubt` judges an output.
    Empty: it does not, because a word alone has many good translations, each improbable."""
    _log_probs: list[float] = field(default_factory=list)
    _needed: float = 0.0

    def __post_init__(self) -> None:
        self.draft = self.draft[: self.left - 1]
        self._needed = self.sink.job.needed or math.inf

    # Threads of CTranslate2 call the methods below, which coverage does not measure.
    def on_token(self, token: Any, *ids: int, last: bool) -> bool:  # pragma: no cover
        """Pass on one token of the output; return whether this job of the batch is to stop."""
        self.left -= 1
        stop = self._add(self.text.push(token), ids) or last or not self.left
        if stop:
            self.end()
        return stop

    def _add(
        self, text: str, ids: Sequence[int], tokens: int = 1, drafted: int = 0, accepted: int = 0
    ) -> bool:
        """Pass on a piece of the output; return whether no more is needed."""
        self._needed -= len(text)
        ids = (*self.ids, *ids)
        stop = self.sink.add(Chunk(text, tokens, ids=ids, drafted=drafted, accepted=accepted))
        self.ids.clear()
        return stop or self._needed <= 0

    def add_log_prob(self, *log_probs: float) -> None:  # pragma: no cover
        """Add log probabilities of tokens, whether they have text or end the output."""
        self._log_probs += log_probs

    def end(self) -> None:  # pragma: no cover
        # The withheld end of an output that ends early may be the beginning of a character.
        rest = self.text.flush() if self._needed > 0 else ""
        if self.doubt is None:
            self.sink.end(rest)
        else:
            p = self.doubt.probability(self.direction, self._log_probs)
            # An output that its limit ends is not whole.
            self.sink.end(rest, unsure=self.left <= 0 or p < self.doubt.below, p=p)

    def accept(self, count: int) -> bool:
        """Pass on the first ``count`` tokens of the draft; return whether this job is to stop."""
        ids = self.draft[:count]
        self.left -= count
        stop = self._add(self._spell(ids), ids, tokens=0, drafted=len(self.draft), accepted=count)
        if stop:
            self.end()
        return stop

    def add_whole(self, ids: Sequence[int], *, ended: bool) -> None:
        """Pass on the whole output of a beam search, and end. If it has not ``ended``, its limit
        ended it.
        """
        self.left = int(ended)
        self._add(self._spell(ids), ids, tokens=len(ids))
        self.end()

    def _spell(self, ids: Sequence[Any]) -> str:
        return "".join(map(self.text.push, ids))
