"""vLLM's outputs, from EngineCore's message straight to whoever waits for the text.

Owns: `OutputProcessor.process_outputs`, which vLLM's output task calls at every step of the model,
for the requests that were adopted; all others stay vLLM's. Must not know: jobs, chunks, how a
request is made.

vLLM's own way makes two objects of every token, puts them into a collector, sets an event, wakes a
task, and the task resumes a generator. Here the text is decoded and handed over where it arrives.
This leans on vLLM's inside, so `unfit` looks at that inside first; where it is not as it was in
0.25 and 0.32, the engine asks through `AsyncLLM.generate` as anybody does.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gateway.errors import redacted

logger = logging.getLogger(__name__)

TAIL = 16
"""Ids of a prompt with which decoding begins. vLLM begins with all of them, and its first step
decodes them twice: a third of a millisecond for a prompt with context. What follows depends on the
last few only."""

UNDECODABLE = "�"

ARGUMENTS = ("engine_core_outputs", "engine_core_timestamp", "iteration_stats")
"""Of `OutputProcessor.process_outputs`."""
LATER = {"weight_version"}
"""Its arguments that came after 0.25 and say nothing about the text."""
PROCESSOR = (
    *("request_states", "external_req_ids", "lora_states", "tracing_enabled", "stream_interval"),
    *("process_outputs", "_finish_request", "_update_stats_from_output"),
    *("_update_stats_from_finished", "do_tracing"),
)
STATE = (
    *("queue", "detokenizer", "is_prefilling", "stats", "lora_name", "num_cached_tokens"),
    *("parent_req", "streaming_input", "prompt_token_ids"),
)
OUTPUT = {"request_id", "new_token_ids", "finish_reason", "events", "prefill_stats"}


class OutputReceiver(Protocol):
    """Where the output of one request goes. Nothing here raises, and nothing waits."""

    def take(self, text: str, ids: Sequence[int], /) -> None:
        """What came of one step. The text may be empty: half a character, or the end itself."""

    def over(self, reason: str | None, /) -> None:
        """The request ended, for vLLM's ``finish_reason``; vLLM has forgotten it."""

    def failed(self, exc: Exception, /) -> None:
        """The request, or all of vLLM, failed."""


class OutputTap:
    """In the place of a request's `RequestOutputCollector`: passes on and collects nothing.

    `put` is for what vLLM says itself: the end of an aborted request, or its own death.
    """

    __slots__ = ("receiver", "request_id")

    def __init__(self, request_id: str, receiver: OutputReceiver) -> None:
        self.request_id = request_id
        self.receiver = receiver

    def put(self, output: Any) -> None:
        if isinstance(output, Exception):
            # vLLM is going through its requests to tell them; none may go or come meanwhile.
            asyncio.get_running_loop().call_soon(self.receiver.failed, output)
            return
        (completion,) = output.outputs
        if completion.token_ids:
            self.receiver.take(completion.text, completion.token_ids)
        if output.finished:
            self.receiver.over(completion.finish_reason)

    def close(self) -> None:
        pass


def unfit(engine: Any) -> str | None:
    """Why this vLLM cannot be fed from; None if it can.

    :param engine: an `AsyncLLM`
    """
    from vllm.v1.engine import EngineCoreOutput

    processor = engine.output_processor
    if missing := [name for name in PROCESSOR if not hasattr(processor, name)]:
        return f"its output processor has no {missing[0]}"
    names = list(inspect.signature(processor.process_outputs).parameters)
    if tuple(names[: len(ARGUMENTS)]) != ARGUMENTS or {*names[len(ARGUMENTS) :]} - LATER:
        return f"process_outputs takes {', '.join(names)}"
    if missing := sorted(OUTPUT.difference(EngineCoreOutput.__struct_fields__)):
        return f"its outputs have no {missing[0]}"
    wanted = inspect.signature(engine.add_request).parameters
    if not {"request_id", "prompt", "params", "priority"} <= wanted.keys():
        return "add_request has other arguments"
    if processor.stream_interval != 1:
        return "stream_interval is set"
    return None


class OutputFeed:
    """The outputs of one `AsyncLLM`, from its construction to its end.

    :param engine: an `AsyncLLM` for which `unfit` has no objection
    :param decode: text of token ids, as `tokenizers.Tokenizer.decode`
    """

    def __init__(self, engine: Any, decode: Callable[..., str]) -> None:
        from vllm.v1.engine import FinishReason
        from vllm.v1.engine.output_processor import OutputProcessorOutput

        self.fed = 0
        """Outputs that went this way."""
        self._processor = engine.output_processor
        self._rest = self._processor.process_outputs  # vLLM's own
        self._stop = FinishReason.STOP
        self._done = OutputProcessorOutput
        self._decode = decode
        self._processor.process_outputs = self.process

    def stop(self) -> None:
        """Leave everything to vLLM again."""
        del self._processor.process_outputs

    def adopt(self, request_id: str, receiver: OutputReceiver) -> bool:
        """Whether the request that was added with this (external) id is fed from now on.

        False if it is not known (yet), or of a kind that is vLLM's business. What its collector
        has already goes to the receiver first.
        """
        for internal in self._processor.external_req_ids.get(request_id, ()):
            state = self._processor.request_states.get(internal)
            if state is None or not self._ours(state):
                return False
            early = state.queue.output
            state.queue = tap = OutputTap(internal, receiver)
            self._shorten(state)
            if early is not None:
                tap.put(early)
            return True
        return False

    def _ours(self, state: Any) -> bool:
        if missing := [name for name in STATE if not hasattr(state, name)]:
            logger.warning("vLLM's requests have no %s", missing[0])
            return False
        plain = state.parent_req is None and not state.streaming_input
        return plain and hasattr(state.detokenizer, "decode_next") and not state.detokenizer.stop

    def _shorten(self, state: Any) -> None:
        """Have the detokeniser begin with the end of the prompt, where that is the same."""
        detokenizer = state.detokenizer
        tail = (state.prompt_token_ids or [])[-TAIL:]
        if len(tail) < TAIL or not hasattr(detokenizer, "stream") or detokenizer.token_ids:
            return
        skip = detokenizer.skip_special_tokens
        text = self._decode(tail, skip_special_tokens=skip)
        if text.strip() and not text.endswith(UNDECODABLE):
            detokenizer.stream = type(detokenizer.stream)(ids=tail, skip_special_tokens=skip)

    def process(
        self,
        outputs: Sequence[Any],
        timestamp: float | None = None,
        stats: Any = None,
        **rest: Any,
    ) -> Any:
        """One step of the model, or a part of it: in the place of ``process_outputs``."""
        states = self._processor.request_states
        others: list[Any] = []  # what is not ours
        lost: list[str] = []  # what EngineCore is to forget
        tokens = 0
        for output in outputs:
            state = states.get(output.request_id)
            if state is None:
                continue  # aborted meanwhile
            tap = state.queue
            if type(tap) is not OutputTap:
                others.append(output)
                continue
            ids = output.new_token_ids
            reason = output.finish_reason
            try:
                if state.is_prefilling:
                    self._first(state, output, timestamp, stats)
                elif stats is not None:
                    tokens += len(ids)
                    state.stats.num_generation_tokens += len(ids)
                    if output.events is not None:
                        self._events(state, output, stats)
                if reason is None and len(ids) == 1:
                    tap.receiver.take(state.detokenizer.decode_next(ids[0]), ids)
                elif ids:
                    spelt = ids[:-1] if reason == self._stop else ids  # not the stop token itself
                    decode = state.detokenizer.decode_next
                    tap.receiver.take("".join([decode(id) for id in spelt]), ids)
            except Exception as exc:  # one request's bad luck must not end the output task
                bare = redacted(exc)
                logger.error("an output of vLLM's could not be passed on", exc_info=bare)
                if output.request_id in states:
                    self._processor._finish_request(state)
                    lost.append(output.request_id)
                tap.receiver.failed(exc)
                continue
            if reason is not None and output.request_id in states:  # not aborted by who received
                self._last(state, output, timestamp, stats)
                tap.receiver.over(str(reason))
        if stats is not None:
            stats.num_generation_tokens += tokens
        self.fed += len(outputs) - len(others)
        if others:
            done = self._rest(others, timestamp, stats, **rest)
            done.reqs_to_abort.extend(lost)
            return done
        return self._done(request_outputs=[], reqs_to_abort=lost)

    def _first(self, state: Any, output: Any, timestamp: float | None, stats: Any) -> None:
        self._processor._update_stats_from_output(state, output, timestamp, stats)
        if output.prefill_stats is not None:
            state.num_cached_tokens = output.prefill_stats.num_cached_tokens
        state.is_prefilling = False

    def _events(self, state: Any, output: Any, stats: Any) -> None:
        stats.update_from_events(
            *(output.request_id, output.events, False),
            *(state.stats, self._processor.lora_states, state.lora_name),
        )

    def _last(self, state: Any, output: Any, timestamp: float | None, stats: Any) -> None:
        """The books of a request that ended, as vLLM closes them."""
        processor = self._processor
        processor._finish_request(state)
        if stats is not None:
            state.stats.last_token_ts = timestamp
        processor._update_stats_from_finished(state, output.finish_reason, stats)
        if processor.tracing_enabled:
            processor.do_tracing(output, state, stats)
