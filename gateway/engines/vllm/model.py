"""The model in vLLM, from the moment when there is one: what jobs are to it, and its life.

Owns: from a job to a request of vLLM's, whose output goes straight to its receiver (`feed`) or is
pulled where that cannot be, and the end of a request. Must not know: who waits for a job, whether
the engine is ready, how many jobs there may be.
"""

from __future__ import annotations

import asyncio
import logging
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import aclosing
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from tokenizers import Tokenizer

from gateway.engines.base.tokenizer import FILE, Vocabulary
from gateway.engines.profiles import Profile, Prompt
from gateway.engines.vllm.compat import VllmApi
from gateway.engines.vllm.outputs import OutputFeed, OutputReceiver, unfit
from gateway.errors import EngineFault, EngineGone, ErrorCode, JobFault, redacted
from gateway.job import Job

logger = logging.getLogger(__name__)

LONG = 1_000
"""Characters from which a prompt is tokenised in a thread.

Below, that takes half a millisecond of the event loop at most; a sentence takes 30 us, less than
the way to a thread and back.
"""

PROOF_S = 60.0
"""Seconds that one token may take when the model has just been loaded and compiled."""


class VllmRequest(OutputReceiver, Protocol):
    """One request of vLLM's, and where its output goes.

    ``name`` is for vLLM, ``ended`` whether nobody wants more of it.
    """

    name: str
    ended: bool

    def forced(self, ids: list[int], /) -> None:
        """The ids of the prefix that the output must continue, before any output."""


class ProbeRequest:
    """A `VllmRequest` for one token of nothing: whether it comes the short way."""

    def __init__(self) -> None:
        self.name = "proof"
        self.ended = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def forced(self, ids: list[int]) -> None:
        pass

    def take(self, text: str, ids: Sequence[int]) -> None:
        pass

    def over(self, reason: str | None) -> None:
        self.ended = True
        if not self.done.done():
            self.done.set_result(None)

    def failed(self, exc: Exception) -> None:
        self.ended = True
        if not self.done.done():
            self.done.set_exception(exc)


class LoadedModel:
    """One `AsyncLLMEngine`.

    :param feed: whether outputs may go the short way
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
        self.room = min(profile.max_input, engine.vllm_config.model_config.max_model_len)
        stop = (self.vocabulary.control(token) for token in profile.stop)
        self.stop = [id for id in stop if id is not None]
        self.silent = self.vocabulary.controls.union(self.stop)
        self.feed: OutputFeed | None = None
        """None: outputs are pulled from vLLM, a task for each request."""
        self._short = feed
        self._tasks: set[asyncio.Task[None]] = set()  # keeps them alive; a few, see `begin`

    @property
    def dead(self) -> bool:
        return bool(self.engine.errored)

    @property
    def unfinished(self) -> int:
        return int(self.engine.output_processor.get_num_unfinished_requests())

    async def warm(self) -> None:
        """Translate nothing, once or twice: what vLLM puts off until its first request is done
        then, and whether its outputs can be fed is known.

        That includes the task which notices the death of EngineCore. Raises `EngineGone` where
        `aclose` comes meanwhile: nothing would end the wait for vLLM's answer then.
        """
        task = asyncio.create_task(self._warm(), name="vllm warm-up")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        if task.cancelled():
            raise EngineGone("vLLM was closed while it started.")
        task.result()

    async def _warm(self) -> None:
        stream = self.engine.generate(
            self.api.tokens_input([0]), self.api.params(max_tokens=1), "warm-up"
        )
        async with aclosing(stream) as outputs:
            async for _ in outputs:
                pass
        if self._short and (why := await self._prove()) is not None:
            version = self.api.vllm.__version__
            logger.warning("vLLM %s is asked the long way, with more CPU: %s", version, why)

    async def _prove(self) -> str | None:
        """Why outputs cannot be fed here; None, and `feed`, if they can."""
        if (why := unfit(self.engine)) is not None:
            return why
        self.feed = feed = OutputFeed(self.engine, self.vocabulary.tokenizer.decode)
        proof = ProbeRequest()
        try:
            async with asyncio.timeout(PROOF_S):
                self._ask(proof, [0], self.api.params(max_tokens=1), 0)
                await proof.done
        except Exception as exc:  # whatever it is, vLLM's own way is the way then
            if self.dead:
                raise
            logger.debug("the short way failed its proof", exc_info=True)
            why = str(exc) or type(exc).__name__
        if why is None and not feed.fed:
            why = "its outputs do not come by"
        if why is not None:
            feed.stop()
            self.feed = None
        return why

    def begin(self, job: Job, request: VllmRequest) -> None:
        """Have ``job`` translated, and ``request`` told what comes of it after this has returned.

        Raises nothing: what goes wrong, `VllmRequest.failed` says.
        """
        try:
            prompt = self.profile.prompt(job)
            size = sum(len(part) for part in prompt.parts if isinstance(part, str))
            if 0 < size < LONG:
                self._follow(job, request, *self._tokenise(job, prompt))
            else:
                self._keep(request, self._begin_apart, job, prompt, request)
        except Exception as exc:
            bare = redacted(exc)
            logger.debug("a request could not be made of job %s", job.id, exc_info=bare)
            asyncio.get_running_loop().call_soon(request.failed, exc)

    def halt(self, name: str) -> None:
        """Stop a request inside vLLM before this returns. No-op if there is none of that name."""
        rest = begin(self.engine.abort(name))
        if rest is not None:
            self._tasks.add(rest)
            rest.add_done_callback(self._halted)

    async def aclose(self) -> None:
        """End EngineCore and free the device."""
        # The output task would take the shutdown for a crash and log it, so it goes first.
        tasks = [*self._tasks]
        if (outputs := self.engine.output_handler) is not None:
            tasks.append(outputs)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.to_thread(self.engine.shutdown)

    # A request.

    async def _begin_apart(self, job: Job, prompt: Prompt, request: VllmRequest) -> None:
        tokenised = await asyncio.to_thread(self._tokenise, job, prompt)
        if not request.ended:
            self._follow(job, request, *tokenised)

    def _follow(
        self, job: Job, request: VllmRequest, ids: list[int], limit: int, prefix: list[int]
    ) -> None:
        sampling = self.profile.sampling(job)
        params = self.api.params(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            repetition_penalty=sampling.repetition_penalty,
            seed=sampling.seed,
            max_tokens=limit,
            stop_token_ids=self.stop,
        )
        request.forced(prefix)
        self._ask(request, ids, params, job.priority)

    def _ask(self, request: VllmRequest, ids: list[int], params: Any, priority: int) -> None:
        """Raises what vLLM does."""
        prompt = self.api.tokens_input(ids)
        if self.feed is None:
            self._keep(request, self._pull, request, prompt, params, priority)
            return
        # Waits for nothing but room in the pipe to EngineCore.
        rest = begin(self.engine.add_request(request.name, prompt, params, priority=priority))
        adopted = self.feed.adopt(request.name, request)
        if rest is not None:
            self._keep(request, self._added, rest, request, adopted)
        elif not adopted:
            self.halt(request.name)
            raise EngineFault("vLLM did not keep a request as it did before.", ErrorCode.INTERNAL)

    async def _added(self, rest: asyncio.Task[None], request: VllmRequest, adopted: bool) -> None:
        """See to a request that could not be sent at once."""
        await rest
        if request.ended:  # vLLM leaks a request that is aborted while it is added (vllm#57061)
            self.halt(request.name)
        elif not adopted and not (self.feed and self.feed.adopt(request.name, request)):
            self.halt(request.name)
            raise EngineFault("vLLM did not keep a request as it did before.", ErrorCode.INTERNAL)

    async def _pull(self, request: VllmRequest, prompt: Any, params: Any, priority: int) -> None:
        """vLLM's own way to an output."""
        if request.ended:
            return
        reason = None
        try:
            stream = self.engine.generate(prompt, params, request.name, priority=priority)
            async with aclosing(stream) as outputs:
                async for output in outputs:
                    (completion,) = output.outputs
                    reason = completion.finish_reason
                    request.take(completion.text, completion.token_ids)
        finally:
            self.halt(request.name)  # vllm#57061, see above; for one that has ended it does nothing
        request.over(reason)

    def _keep(
        self, request: VllmRequest, work: Callable[..., Coroutine[Any, Any, None]], *args: Any
    ) -> None:
        """Do ``work`` for ``request`` in a task; where it fails, the request does."""

        async def run() -> None:
            try:
                await work(*args)
            except Exception as exc:
                bare = redacted(exc)
                logger.debug("vLLM failed the request %s", request.name, exc_info=bare)
                request.failed(exc)

        task = asyncio.create_task(run(), name=f"vllm {request.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _halted(self, rest: asyncio.Task[None]) -> None:
        self._tasks.discard(rest)
        if not rest.cancelled() and (exc := rest.exception()) is not None:
            bare = redacted(exc)
            logger.warning("vLLM could not be told to abort a request", exc_info=bare)

    # A prompt.

    def _tokenise(self, job: Job, prompt: Prompt) -> tuple[list[int], int, list[int]]:
        """Ids of the prompt, how many tokens may follow, and ids of the forced prefix."""
        prefix = self.vocabulary.forced(prompt.prefix, job.prefix_ids)
        if prompt.parts:
            ids = self.vocabulary.encode(prompt, prefix_ids=prefix)
        else:
            ids = self._templated(prompt)
        room = self.room - len(ids)
        if room < 1:
            raise JobFault(
                f"The text takes {len(ids)} tokens and the model has room for {self.room}.",
                ErrorCode.TOO_LONG,
                hint="Send it sentence by sentence.",
            )
        limit = self.profile.max_tokens(self.vocabulary.count(job.text), len(prefix))
        return ids, min(room, limit), prefix

    def _templated(self, prompt: Prompt) -> list[int]:
        """Ids of a prompt that only the model's own chat template can write. Takes about 1 ms."""
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
        """One that takes control tokens in text for what they are: the template wrote them."""
        tokenizer = Tokenizer.from_str(self.vocabulary.tokenizer.to_str())
        tokenizer.encode_special_tokens = False
        return tokenizer


def begin(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Run ``coroutine`` up to where it first waits, before returning; the rest in a task.

    None if it never waits. vLLM has no synchronous way to abort, but its abort waits only while
    the pipe to EngineCore is full. From Python 3.12 on this is ``Task(eager_start=True)``.
    """
    try:
        waiting = coroutine.send(None)
    except StopIteration:
        return None

    @types.coroutine
    def resume() -> Generator[Any, Any, None]:
        yield waiting
        yield from coroutine

    async def rest() -> None:
        await resume()

    return asyncio.get_running_loop().create_task(rest())


def _vocabulary(model: str, engine: Any) -> Vocabulary:
    """The model's tokenizer: from its directory, else as vLLM has loaded it."""
    if (Path(model) / FILE).is_file():
        return Vocabulary.load(Path(model))
    tokenizer = engine.get_tokenizer()
    backend = getattr(tokenizer, "backend_tokenizer", None) or getattr(
        tokenizer, "_tokenizer", None
    )
    if not isinstance(backend, Tokenizer):
        raise EngineFault(
            f"The model {model} has no fast tokenizer ({FILE}).",
            hint="Choose a model that has one, or serve it with `vllm serve` and --engine openai.",
        )
    return Vocabulary(Tokenizer.from_str(backend.to_str()))  # vLLM goes on using its own
