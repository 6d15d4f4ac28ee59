"""A direct path for vLLM's outputs, from EngineCore's message to the receiver of the text.

Owns: a replacement of `OutputProcessor.process_outputs`, which vLLM's output task calls at every
step of the model. It handles the requests that were adopted and leaves all others to vLLM. Must not
know: jobs, chunks, how a request is made.

By default vLLM makes two objects of every token, puts them into a collector, sets an event and
wakes a task, which resumes a generator. Here the text is decoded and passed on in the call in which
it arrives. This depends on vLLM's internals, so `why_unsupported` checks them first. If they differ
from those of 0.25 and 0.32, the engine uses `AsyncLLM.generate` instead.
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
"""Ids at the end of a prompt with which the detokeniser begins. vLLM begins with all ids and
decodes them twice in its first step, which takes a third of a millisecond for a prompt with
context. The text that follows depends on the last few ids only."""

UNDECODABLE = "�"

ARGUMENTS = ("engine_core_outputs", "engine_core_timestamp", "iteration_stats")
"""Arguments of `OutputProcessor.process_outputs`."""
LATER_ARGUMENTS = {"weight_version"}
"""Arguments that were added after 0.25 and do not concern the text."""
PROCESSOR = (
    "request_states external_req_ids lora_states tracing_enabled stream_interval process_outputs"
    " _finish_request _update_stats_from_output _update_stats_from_finished do_tracing"
).split()
STATE = (
    "queue detokenizer is_prefilling stats lora_name num_cached_tokens parent_req streaming_input"
    " prompt_token_ids"
).split()
OUTPUT = {"request_id", "new_token_ids", "finish_reason", "events", "prefill_stats"}


class OutputReceiver(Protocol):
    """A receiver of the output of one request. Its methods do not raise and do not block."""

    def on_output(self, text: str, ids: Sequence[int], /) -> None:
        """Receive the output of one step.

        :param text: empty if the tokens complete no character
        :param ids: ids of the tokens, including a stop token
        """

    def on_end(self, reason: str | None, /) -> None:
        """Receive the end of the request, with vLLM's ``finish_reason``."""

    def on_failure(self, exc: Exception, /) -> None:
        """Receive the exception with which the request, or all of vLLM, failed."""


class OutputTap:
    """A replacement of a request's `RequestOutputCollector` that passes outputs on at once.

    vLLM calls `put` for the end of an aborted request and for its own death.
    """

    __slots__ = ("receiver", "request_id")

    def __init__(self, request_id: str, receiver: OutputReceiver) -> None:
        self.request_id = request_id
        self.receiver = receiver

    def put(self, output: Any) -> None:
        if isinstance(output, Exception):
            # vLLM is iterating over its requests, so none may be added or removed in this call.
            asyncio.get_running_loop().call_soon(self.receiver.on_failure, output)
            return
        (completion,) = output.outputs
        if completion.token_ids:
            self.receiver.on_output(completion.text, completion.token_ids)
        if output.finished:
            self.receiver.on_end(completion.finish_reason)

    def close(self) -> None:
        pass


def why_unsupported(engine: Any) -> str | None:
    """Return why outputs of an `AsyncLLM` cannot be taken directly in this version of vLLM, or None
    if they can.
    """
    from vllm.v1.engine import EngineCoreOutput

    processor = engine.output_processor
    if missing := [name for name in PROCESSOR if not hasattr(processor, name)]:
        return f"its output processor has no {missing[0]}"
    names = list(inspect.signature(processor.process_outputs).parameters)
    if tuple(names[: len(ARGUMENTS)]) != ARGUMENTS or {*names[len(ARGUMENTS) :]} - LATER_ARGUMENTS:
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
    """The direct path for the outputs of one `AsyncLLM`, active until `detach`.

    :param engine: an `AsyncLLM` for which `why_unsupported` returns None
    :param decode: returns the text of token ids, as `tokenizers.Tokenizer.decode`
    """

    def __init__(self, engine: Any, decode: Callable[..., str]) -> None:
        from vllm.v1.engine import FinishReason
        from vllm.v1.engine.output_processor import OutputProcessorOutput

        self.outputs_fed = 0
        """Outputs that took the direct path."""
        self._processor = engine.output_processor
        self._vllm_process = self._processor.process_outputs  # vLLM's own
        self._stop_reason = FinishReason.STOP
        self._result_type = OutputProcessorOutput
        self._decode = decode
        self._processor.process_outputs = self.process

    def detach(self) -> None:
        """Leave all outputs to vLLM again."""
        del self._processor.process_outputs

    def adopt(self, request_id: str, receiver: OutputReceiver) -> bool:
        """Send the output of a request to ``receiver`` from now on, and return whether that works.

        Return False if vLLM does not know the request (yet), or if only vLLM can handle its kind.
        Output that the request's collector has already is sent first.

        :param request_id: the id with which the request was added
        """
        for internal in self._processor.external_req_ids.get(request_id, ()):
            state = self._processor.request_states.get(internal)
            if state is None or not self._can_feed(state):
                return False
            early = state.queue.output
            state.queue = tap = OutputTap(internal, receiver)
            self._shorten_prompt(state)
            if early is not None:
                tap.put(early)
            return True
        return False

    def _can_feed(self, state: Any) -> bool:
        """Tell whether `process` can handle the request with this state."""
        if missing := [name for name in STATE if not hasattr(state, name)]:
            logger.warning("vLLM's requests have no %s", missing[0])
            return False
        plain = state.parent_req is None and not state.streaming_input
        return plain and hasattr(state.detokenizer, "decode_next") and not state.detokenizer.stop

    def _shorten_prompt(self, state: Any) -> None:
        """Have the detokeniser begin with the end of the prompt, if the output is the same."""
        detokenizer = state.detokenizer
        tail = (state.prompt_token_ids or [])[-TAIL:]
        if len(tail) < TAIL or not hasattr(detokenizer, "stream") or detokenizer.token_ids:
            return
        skip = detokenizer.skip_special_tokens
        text = self._decode(tail, skip_special_tokens=skip)
        if text.strip() and not text.endswith(UNDECODABLE):
            detokenizer.stream = type(detokenizer.stream)(ids=tail, skip_special_tokens=skip)

    def process(
        self, outputs: Sequence[Any], timestamp: float | None = None, stats: Any = None, **rest: Any
    ) -> Any:
        """Process the outputs of one step of the model, in place of ``process_outputs``."""
        states = self._processor.request_states
        others: list[Any] = []  # outputs that are left to vLLM
        to_abort: list[str] = []  # ids of requests that EngineCore has to abort
        tokens = 0
        for output in outputs:
            state = states.get(output.request_id)
            if state is None:
                continue  # the request was aborted
            tap = state.queue
            if type(tap) is not OutputTap:
                others.append(output)
                continue
            ids = output.new_token_ids
            reason = output.finish_reason
            try:
                if state.is_prefilling:
                    self._on_first_output(state, output, timestamp, stats)
                elif stats is not None:
                    tokens += len(ids)
                    state.stats.num_generation_tokens += len(ids)
                    if output.events is not None:
                        self._record_events(state, output, stats)
                if reason is None and len(ids) == 1:
                    tap.receiver.on_output(state.detokenizer.decode_next(ids[0]), ids)
                elif ids:
                    # The stop token itself has no text.
                    spelt = ids[:-1] if reason == self._stop_reason else ids
                    decode = state.detokenizer.decode_next
                    tap.receiver.on_output("".join([decode(id) for id in spelt]), ids)
            except Exception as exc:  # a fault of one request must not end the output task
                lost = "an output of vLLM could not be passed on"
                logger.error(lost, exc_info=redacted(exc))
                if output.request_id in states:
                    self._processor._finish_request(state)
                    to_abort.append(output.request_id)
                tap.receiver.on_failure(exc)
                continue
            # The receiver may have aborted the request in `on_output`.
            if reason is not None and output.request_id in states:
                self._on_last_output(state, output, timestamp, stats)
                tap.receiver.on_end(str(reason))
        if stats is not None:
            stats.num_generation_tokens += tokens
        self.outputs_fed += len(outputs) - len(others)
        if others:
            done = self._vllm_process(others, timestamp, stats, **rest)
            done.reqs_to_abort.extend(to_abort)
            return done
        return self._result_type(request_outputs=[], reqs_to_abort=to_abort)

    def _on_first_output(
        self, state: Any, output: Any, timestamp: float | None, stats: Any
    ) -> None:
        self._processor._update_stats_from_output(state, output, timestamp, stats)
        if output.prefill_stats is not None:
            state.num_cached_tokens = output.prefill_stats.num_cached_tokens
        state.is_prefilling = False

    def _record_events(self, state: Any, output: Any, stats: Any) -> None:
        stats.update_from_events(
            *(output.request_id, output.events, False),
            *(state.stats, self._processor.lora_states, state.lora_name),
        )

    def _on_last_output(self, state: Any, output: Any, timestamp: float | None, stats: Any) -> None:
        """Remove a request that ended and update the statistics, as vLLM does."""
        processor = self._processor
        processor._finish_request(state)
        if stats is not None:
            state.stats.last_token_ts = timestamp
        processor._update_stats_from_finished(state, output.finish_reason, stats)
        if processor.tracing_enabled:
            processor.do_tracing(output, state, stats)
