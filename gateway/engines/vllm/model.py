"""A loaded model in vLLM: requests made of jobs, and their outputs.

Owns: the tokenizer, the first request and the last; making a request of a job with its sampling,
sending its output to the receiver, by the direct path (`gateway.engines.vllm.outputs`) or by
``AsyncLLM.generate``, and ending it. Must not know: who waits for a job, whether the engine is
ready, how many jobs there may be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from tokenizers import Tokenizer

from gateway.core.base.eager import run_eagerly
from gateway.engines.base.tokenizer import FILE, Vocabulary, output_limit
from gateway.engines.profiles import Profile, Prompt
from gateway.engines.vllm.compat import VllmApi
from gateway.engines.vllm.outputs import OutputFeed, OutputReceiver, why_unsupported
from gateway.errors import EngineFault, EngineGone, ErrorCode, redacted
from gateway.job import Job

logger = logging.getLogger(__name__)

THREAD_LENGTH = 1_000
"""Characters from which a prompt is tokenised in a thread. A shorter prompt takes half a
millisecond of the event loop at most. A sentence takes 30 us, which is less than a switch to a
thread and back."""

PROBE_TIMEOUT = 60.0
"""Seconds that one token may take just after the model was loaded and compiled."""


LOST_REQUEST = "vLLM does not store the request where this version of the gateway expects it."


class VllmRequest(OutputReceiver, Protocol):
    """A request to vLLM, and the receiver of its output."""

    request_id: str
    """Id in vLLM."""
    ended: bool
    """True if no further output is wanted."""

    def on_prompt(self, prefix_ids: list[int], /) -> None:
        """Receive the ids of the forced prefix, before any output."""


class ProbeRequest:
    """A `VllmRequest` for one token, to test whether outputs take the direct path."""

    request_id = "probe"

    def __init__(self) -> None:
        self.ended = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_prompt(self, prefix_ids: list[int]) -> None:
        pass

    def on_output(self, text: str, ids: Sequence[int]) -> None:
        pass

    def on_end(self, reason: str | None) -> None:
        self.ended = True
        if not self.done.done():
            self.done.set_result(None)

    def on_failure(self, exc: Exception) -> None:
        self.ended = True
        if not self.done.done():
            self.done.set_exception(exc)


class LoadedModel:
    """A model in one `AsyncLLMEngine`.

    :param engine: the `AsyncLLMEngine`. It is shut down if this constructor fails
    :param model: directory or hub id, for the tokenizer
    :param feed: whether outputs may take the direct path

    Raises `EngineFault` if the model has no tokenizer. Blocks.
    """

    def __init__(
        self, api: VllmApi, engine: Any, model: str, profile: Profile, *, feed: bool = True
    ) -> None:
        self.api = api
        self.engine = engine
        self.profile = profile
        try:
            self.vocabulary = _vocabulary(model, engine)
        except EngineFault:
            engine.shutdown()
            raise
        # The profile's limit bounds the cache of one request, the model's own is a hard limit.
        self.token_limit = min(profile.max_input, engine.vllm_config.model_config.max_model_len)
        stop = (self.vocabulary.control(token) for token in profile.stop)
        self.stop = [id for id in stop if id is not None]
        self.hidden_ids = self.vocabulary.controls.union(self.stop)
        self.feed: OutputFeed | None = None
        """The direct path. None: a task for each request reads vLLM's generator."""
        self._use_feed = feed
        self._tasks: set[asyncio.Task[None]] = set()  # asyncio itself keeps only weak references

    @property
    def dead(self) -> bool:
        """True after the death of EngineCore."""
        return bool(self.engine.errored)

    @property
    def unfinished(self) -> int:
        """Number of requests in vLLM."""
        return int(self.engine.output_processor.get_num_unfinished_requests())

    async def warm_up(self) -> None:
        """Make one or two requests for a single token.

        They do the work that vLLM defers to its first request, such as the start of the task that
        notices the death of EngineCore, and they show whether the direct path works. Raises
        `EngineGone` if `aclose` is called meanwhile, because nothing would end the wait for vLLM's
        answer then.
        """
        task = self._start_task(self._warm_up(), "vllm warm-up")
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        if task.cancelled():
            raise EngineGone("vLLM was closed while it started.")
        task.result()

    async def _warm_up(self) -> None:
        stream = self.engine.generate(
            self.api.tokens_input([0]), self.api.sampling_params(max_tokens=1), "warm-up"
        )
        async with aclosing(stream) as outputs:
            async for _ in outputs:
                pass
        if self._use_feed and (why := await self._probe_feed()) is not None:
            told = "outputs of vLLM %s are read from its generator, which takes more CPU: %s"
            logger.warning(told, self.api.vllm.__version__, why)

    async def _probe_feed(self) -> str | None:
        """Set `feed` if outputs take the direct path; return None, or the reason if they do not."""
        if (why := why_unsupported(self.engine)) is not None:
            return why
        self.feed = feed = OutputFeed(self.engine, self.vocabulary.tokenizer.decode)
        probe = ProbeRequest()
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                self._send(probe, [0], self.api.sampling_params(max_tokens=1), {})
                await probe.done
        except Exception as exc:  # after any fault the generator of vLLM still works
            if self.dead:
                raise
            logger.debug("the probe of the direct path failed", exc_info=True)
            why = str(exc) or type(exc).__name__
        if why is None and not feed.outputs_fed:
            why = "its outputs do not pass process_outputs"
        if why is not None:
            feed.detach()
            self.feed = None
        return why

    def start_request(self, job: Job, request: VllmRequest) -> None:
        """Start the translation of ``job``. ``request`` is called only after this has returned.
        Raises nothing: every fault goes to `VllmRequest.on_failure`.
        """
        try:
            prompt = self.profile.prompt(job)
            size = sum(len(part) for part in prompt.parts if isinstance(part, str))
            if 0 < size < THREAD_LENGTH:
                self._submit(job, request, *self._tokenise(job, prompt))
            else:
                self._run_in_task(request, self._start_in_thread, job, prompt, request)
        except Exception as exc:
            refused = "no request could be made for job %s"
            logger.debug(refused, job.id, exc_info=redacted(exc))
            asyncio.get_running_loop().call_soon(request.on_failure, exc)

    def abort(self, request_id: str) -> None:
        """Abort a request inside vLLM before this returns. Do nothing if it does not exist."""
        # vLLM has no synchronous abort, but it waits only while the pipe to EngineCore is full.
        rest = run_eagerly(self.engine.abort(request_id))
        if rest is not None:
            self._start_task(self._finish_abort(rest), "vllm abort")

    async def aclose(self) -> None:
        """End EngineCore and free the device."""
        # The output task would log the shutdown as a crash, so it is cancelled first.
        tasks = [*filter(None, (self.engine.output_handler, *self._tasks))]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self.engine.shutdown)

    # Requests

    async def _start_in_thread(self, job: Job, prompt: Prompt, request: VllmRequest) -> None:
        """Tokenise a long prompt in a thread, then send the request."""
        tokenised = await asyncio.to_thread(self._tokenise, job, prompt)
        if not request.ended:
            self._submit(job, request, *tokenised)

    def _submit(
        self, job: Job, request: VllmRequest, ids: list[int], limit: int, prefix: list[int]
    ) -> None:
        sampling = self.profile.sampling(job)
        params = self.api.sampling_params(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            repetition_penalty=sampling.repetition_penalty,
            seed=sampling.seed,
            max_tokens=limit,
            stop_token_ids=self.stop,
        )
        request.on_prompt(prefix)
        self._send(request, ids, params, {"priority": int(job.priority)})

    def _send(
        self, request: VllmRequest, ids: list[int], params: Any, options: dict[str, int]
    ) -> None:
        """Send a request to vLLM. Raises the exceptions of vLLM, and `EngineFault`.

        :param options: more arguments of vLLM's ``add_request`` and ``generate``
        """
        prompt = self.api.tokens_input(ids)
        if self.feed is None:
            self._run_in_task(request, self._pull, request, prompt, params, options)
            return
        # `add_request` waits only while the pipe to EngineCore is full.
        rest = run_eagerly(self.engine.add_request(request.request_id, prompt, params, **options))
        adopted = self.feed.adopt(request.request_id, request)
        if rest is not None:
            self._run_in_task(request, self._finish_adding, rest, request, adopted)
        elif not adopted:
            self.abort(request.request_id)
            raise EngineFault(LOST_REQUEST, ErrorCode.INTERNAL)

    async def _finish_adding(
        self, rest: Awaitable[None], request: VllmRequest, adopted: bool
    ) -> None:
        """Wait until a request is added that could not be added at once, and adopt its output."""
        await rest
        if request.ended:  # vLLM leaks a request that is aborted while it is added (vllm#57061)
            self.abort(request.request_id)
        elif not adopted and not (self.feed and self.feed.adopt(request.request_id, request)):
            self.abort(request.request_id)
            raise EngineFault(LOST_REQUEST, ErrorCode.INTERNAL)

    async def _pull(
        self, request: VllmRequest, prompt: Any, params: Any, options: dict[str, int]
    ) -> None:
        """Read the output of a request from vLLM's generator."""
        if request.ended:
            return
        reason = None
        try:
            stream = self.engine.generate(prompt, params, request.request_id, **options)
            async with aclosing(stream) as outputs:
                async for output in outputs:
                    (completion,) = output.outputs
                    reason = completion.finish_reason
                    request.on_output(completion.text, completion.token_ids)
        finally:
            # vllm#57061, as above. For a request that has ended this does nothing.
            self.abort(request.request_id)
        request.on_end(reason)

    def _run_in_task(
        self, request: VllmRequest, work: Callable[..., Coroutine[Any, Any, None]], *args: Any
    ) -> None:
        """Run ``work(*args)`` in a task. Its exceptions go to ``request.on_failure``."""

        async def run() -> None:
            try:
                await work(*args)
            except Exception as exc:
                failed = "vLLM failed the request %s"
                logger.debug(failed, request.request_id, exc_info=redacted(exc))
                request.on_failure(exc)

        self._start_task(run(), f"vllm {request.request_id}")

    async def _finish_abort(self, rest: Awaitable[None]) -> None:
        """Wait for an abort that could not be sent at once. Raises nothing: a fault is logged."""
        try:
            await rest
        except Exception as exc:
            logger.warning("vLLM failed to abort a request", exc_info=redacted(exc))

    def _start_task(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Prompts

    def _tokenise(self, job: Job, prompt: Prompt) -> tuple[list[int], int, list[int]]:
        """Return the ids of the prompt, the limit of new tokens, and the ids of the forced prefix.
        Raises `JobFault` if the prompt leaves no room for output.
        """
        prefix = self.vocabulary.forced(prompt.prefix, job.prefix_ids)
        encode = self.vocabulary.encode
        ids = encode(prompt, prefix_ids=prefix) if prompt.parts else self._templated(prompt)
        source = self.vocabulary.count(job.text)
        limit = output_limit(self.profile, source, len(ids), len(prefix), self.token_limit)
        return ids, limit, prefix

    def _templated(self, prompt: Prompt) -> list[int]:
        """Return the ids of a prompt made by the model's own chat template. Takes about 1 ms."""
        answered = prompt.messages[-1][0] == "assistant"  # the forced prefix, to be continued
        text = self.engine.get_tokenizer().apply_chat_template(
            [{"role": role, "content": content} for role, content in prompt.messages],
            tokenize=False,
            add_generation_prompt=not answered,
            continue_final_message=answered,
            **self.profile.server,
        )
        return self._template_tokenizer.encode(text, add_special_tokens=False).ids

    @cached_property
    def _template_tokenizer(self) -> Tokenizer:
        """A tokenizer that reads control tokens in text, because the template writes them."""
        tokenizer = Tokenizer.from_str(self.vocabulary.tokenizer.to_str())
        tokenizer.encode_special_tokens = False
        return tokenizer


def _vocabulary(model: str, engine: Any) -> Vocabulary:
    """Return the model's tokenizer: from its directory, or else the one that vLLM has loaded.
    Raises `EngineFault` if there is no fast tokenizer.
    """
    if (Path(model) / FILE).is_file():
        return Vocabulary.load(Path(model))
    tokenizer = engine.get_tokenizer()
    backend = getattr(tokenizer, "backend_tokenizer", None) or getattr(
        tokenizer, "_tokenizer", None
    )
    if not isinstance(backend, Tokenizer):
        hint = "Choose a model that has one, or serve it with `vllm serve` and --engine openai."
        raise EngineFault(f"The model {model} has no fast tokenizer ({FILE}).", hint=hint)
    return Vocabulary(Tokenizer.from_str(backend.to_str()))  # a copy, because vLLM uses its own
