"""One job of a batch that CTranslate2 decodes: its input, and the handling of its output tokens.

Owns: when a job ends, and how sure the model is of its output. Must not know: models, batches, how
a token is chosen (`gateway.engines.ctranslate2.model`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gateway.engines.base.tokenizer import Detokenizer, PieceDetokenizer
from gateway.errors import GatewayError
from gateway.job import Chunk, Job


class DecodeSink(Protocol):
    """A job and the receiver of its output. CTranslate2 calls it in its own threads.

    Neither the sink nor the callback around it may hold a reference to the model. CTranslate2 drops
    both in one of the model's threads, shortly after the result, and a model that is freed there
    ends the process.
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
        self, rest: str = "", fault: GatewayError | None = None, *, unsure: bool = False
    ) -> None:
        """Receive the end of the job.

        :param rest: text that was withheld until the end
        :param fault: why the job could not be completed
        :param unsure: whether the model was too unsure of its tokens, see `Profile`
        """


class DecodeJob:
    """One job of a batch: its input tokens, and the handling of its output tokens.

    :param tokens: the input
    :param limit: most tokens of the output; CTranslate2 knows only the largest limit of the batch
    :param prefix: ids of the forced prefix
    :param text: spells the output, which follows the forced prefix
    :param start: tokens with which the output of an encoder-decoder begins
    :param draft: ids that the output is likely to begin with
    :param unsure: log probability of the least probable token under which the output is unsure;
        None: never, not even if its limit ends it
    """

    def __init__(
        self,
        sink: DecodeSink,
        tokens: list[str],
        limit: int,
        prefix: Sequence[int],
        text: Detokenizer | PieceDetokenizer,
        start: Sequence[str] = (),
        draft: Sequence[int] = (),
        unsure: float | None = None,
    ) -> None:
        self.sink = sink
        self.tokens = tokens
        self.start = list(start)
        self.draft = list(draft[: limit - 1])
        self.left = limit
        self._needed = sink.job.needed or math.inf
        self._ids = list(prefix)  # ids that the sink has not received yet
        self._push: Callable[[Any], str] = text.push
        self._flush = text.flush
        self.unsure = unsure
        self._least = 0.0  # log probability of the least probable token so far

    # Threads of CTranslate2 call the methods below, which coverage does not measure.
    def on_token(self, token: Any, *ids: int, last: bool) -> bool:  # pragma: no cover
        """Pass on one token of the output; return whether this job of the batch is to stop."""
        self.left -= 1
        stop = self._add(self._push(token), ids)
        stop = stop or last or not self.left
        if stop:
            self.end()
        return stop

    def _add(
        self, text: str, ids: Sequence[int], tokens: int = 1, drafted: int = 0, accepted: int = 0
    ) -> bool:
        """Pass on a piece of the output; return whether no more is needed."""
        self._needed -= len(text)
        ids = (*self._ids, *ids)
        stop = self.sink.add(Chunk(text, tokens, ids=ids, drafted=drafted, accepted=accepted))
        self._ids.clear()
        return stop or self._needed <= 0

    def add_log_prob(self, *log_probs: float) -> None:  # pragma: no cover
        """Add log probabilities of tokens, whether they have text or end the output."""
        self._least = min(self._least, *log_probs)

    def end(self) -> None:  # pragma: no cover
        # An output that its limit ends is not whole.
        unsure = self.unsure is not None and (self.left <= 0 or self._least < self.unsure)
        # The withheld end of an output that ends early may be the beginning of a character.
        self.sink.end(self._flush() if self._needed > 0 else "", unsure=unsure)

    def accept(self, count: int) -> bool:
        """Pass on the first ``count`` tokens of the draft; return whether this job is to stop."""
        ids = self.draft[:count]
        self.left -= count
        text = "".join(map(self._push, ids))
        stop = self._add(text, ids, tokens=0, drafted=len(self.draft), accepted=count)
        if stop:
            self.end()
        return stop

    def add_whole(self, ids: Sequence[int], *, ended: bool) -> None:
        """Pass on the whole output of a beam search, and end.

        :param ended: whether the model ended it, not its limit
        """
        self.left = int(ended)
        self._add("".join(map(self._push, ids)), ids, tokens=len(ids))
        self.end()
