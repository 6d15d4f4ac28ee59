"""The engine for OpenAI-compatible servers: streaming HTTP, one connection for each job.

Owns: connections, the task of each job, and what each way in which a response ends means. Must not
know: the form of requests and events (`gateway.engines.openai.completions`), whether the server
works (the supervisor decides that from the ends of jobs), clients, rooms, or which server it is
(``vllm serve``, vllm-router, Ray Serve LLM, llm-d, llama.cpp, Ollama), except whether the server
accepts the fields that only vLLM has.

Each job has one task that reads its response. Only that task uses the response, and it is cancelled
at most once. The server aborts a job when its response is closed, and a second cancel would
interrupt the closing. See ``docs/design/openai.md``.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Literal

import httpx2
import msgspec

from gateway.engines.base.engine import Aborted, Health, PullEngine
from gateway.engines.openai.completions import (
    CompletionEvent,
    CompletionUsage,
    EventStreamDecoder,
    ForcedPrefixFilter,
    ListedModel,
    ModelList,
    error_status,
    request_body,
)
from gateway.engines.profiles import Profile, match
from gateway.errors import EngineFault, EngineGone, JobFault, Overloaded
from gateway.job import Chunk, Job

logger = logging.getLogger(__name__)
# At DEBUG this logger writes the headers of responses, in which a server may quote the text.
logging.getLogger("httpcore2").setLevel(logging.WARNING)

CAPACITY = 16
"""Default number of jobs at once, as ``max_num_seqs`` of the vLLM engine here."""

OPEN_FACTOR = 4
"""A job is refused if this many times ``capacity`` are open. Bounds sockets and memory."""

CONNECT_TIMEOUT = 3.0
"""Seconds to open a connection. A model server in the same network answers in milliseconds."""

READ_TIMEOUT = 20.0
"""Seconds between two pieces of a response. The first wait includes the server's own queue."""

DRAIN_TIMEOUT = 0.5
"""Seconds to wait for the end of a response after its text is complete, to reuse the connection."""

KEEPALIVE_TIMEOUT = 3.0
"""Seconds for which an idle connection is kept. They are fewer than the 5 s of uvicorn, which runs
most servers, so that a request is never sent on a connection that the server is closing."""

OUTPUT_LIMIT = 1 << 16
"""Most characters of one response: a bound of memory. The guards reject far shorter outputs as too
long for a translation."""

REFUSAL_STATUSES = (400, 413, 422)
"""Statuses with which a server refuses one text, for example because it is too long."""

KNOWN_REASONS = ("abort", "error", "function_call", "tool_calls")
"""Finish reasons that may be quoted in a message. Any other might contain private text."""

NAMES_LIMIT = 200
"""Characters of a list of model names in a message."""


class RunningRequest:
    """The response to one running job, as far as it has arrived."""

    def __init__(self) -> None:
        self.pieces: list[str] = []  # not yet read by the caller
        self.size = 0  # characters in all
        self.tokens = 0  # in all
        self.reported_tokens = 0  # already in a chunk
        self.updated = asyncio.Event()
        self.fault: EngineFault | None = None  # of `stop`
        self.task: asyncio.Task[None] | None = None
        self.stopped = False

    def add(self, text: str) -> None:
        """Keep ``text`` for the caller. Raises `JobFault` if the output exceeds `OUTPUT_LIMIT`."""
        self.size += len(text)
        if self.size > OUTPUT_LIMIT:
            raise JobFault("The model server sent far more text than it was asked for.")
        self.pieces.append(text)
        self.updated.set()

    def note_usage(self, usage: CompletionUsage | None) -> None:
        """Keep the number of tokens so far, if the server sent it."""
        if usage is not None and usage.completion_tokens is not None:
            self.tokens = usage.completion_tokens

    def take_chunk(self) -> Chunk:
        """Return all waiting text as one chunk, so that a slow caller gets longer chunks."""
        chunk = Chunk("".join(self.pieces), max(0, self.tokens - self.reported_tokens))
        self.reported_tokens = self.tokens
        self.pieces.clear()
        return chunk

    def stop(self, fault: EngineFault | None = None) -> None:
        """Close the response and end the job with ``fault``. Only the first call has an effect."""
        if not self.stopped and self.task is not None:
            self.stopped = True
            self.fault = fault
            self.task.cancel()
            self.updated.set()


class OpenAIEngine(PullEngine):
    """An `Engine` that translates through an OpenAI-compatible server.

    :param url: address of the server, with or without ``/v1``. Proxies named in the environment are
        used
    :param model: the server's name of the model; None if it has only one
    :param api_key: sent as bearer token, and never logged
    :param profile: how to prompt the model; None chooses one by the name of the model
    :param api: ``chat`` has the server apply its chat template, ``completions`` sends the prompt as
        text, ``auto`` is ``chat`` for chat profiles
    :param capacity: value of `Engine.capacity`
    :param vllm_extras: whether to send the fields that only vLLM has; None sends them if the server
        reports that it is vLLM
    :param read_timeout: seconds, see `READ_TIMEOUT`

    Raises `EngineFault` if the url or the key is malformed.
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        api_key: str | None = None,
        profile: Profile | None = None,
        api: Literal["auto", "chat", "completions"] = "auto",
        capacity: int = CAPACITY,
        vllm_extras: bool | None = None,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        super().__init__()
        base = api_url(url)
        # For messages and logs, so without the user name and password that a url may contain.
        self._address = f"{base.scheme}://{base.netloc.decode()}{base.path}"
        self._api_key = clean_key(api_key)
        self._model = model
        self._given_profile = profile
        self._profile = profile or match(model or "")
        self._api = api
        self._capacity = capacity
        self._vllm_extras = vllm_extras
        self._vllm_fields = bool(vllm_extras)
        self._read_timeout = read_timeout
        self._health = Health.STARTING
        self._replies: dict[str, RunningRequest] = {}
        self._open_tasks: set[asyncio.Task[None]] = set()
        headers = {"Accept": "text/event-stream, application/json", "Accept-Encoding": "identity"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        self._client = httpx2.AsyncClient(
            base_url=base,
            headers=headers,
            timeout=httpx2.Timeout(read_timeout, connect=CONNECT_TIMEOUT, pool=CONNECT_TIMEOUT),
            limits=httpx2.Limits(
                # One more for the request of `start`, so that no request waits for the pool.
                max_connections=OPEN_FACTOR * capacity + 1,
                max_keepalive_connections=capacity,
                keepalive_expiry=KEEPALIVE_TIMEOUT,
            ),
        )

    @property
    def name(self) -> str:
        return f"openai:{self._model}" if self._model else "openai"

    @property
    def profile(self) -> Profile:
        return self._profile

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def health(self) -> Health:
        return self._health

    @property
    def unfinished(self) -> int:
        """Number of open responses. A response stays open after `abort` until it is closed."""
        return len(self._open_tasks)

    @property
    def _chat(self) -> bool:
        return self._api == "chat" or (self._api == "auto" and self._profile.kind == "chat")

    @property
    def _path(self) -> str:
        return "chat/completions" if self._chat else "completions"

    def stats(self) -> Mapping[str, float]:
        return {}

    async def start(self) -> None:
        await self._discover()
        if self._chat and self._profile.kind != "chat":
            raise EngineFault(
                f"The profile {self._profile.name} is not for a chat model:"
                " set openai_api to completions, or choose another profile."
            )
        self._health = Health.READY
        logger.info(
            "%s at %s, profile %s, %s, vLLM's fields %s",
            self.name,
            self._address,
            self._profile.name,
            self._path,
            "on" if self._vllm_fields else "off",
        )

    async def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        reply = self._start_request(job)
        task = reply.task
        assert task is not None, "_start_request starts it"
        try:
            while True:
                if reply.fault is not None:
                    raise reply.fault
                if reply.pieces:
                    yield reply.take_chunk()
                elif task.done():
                    break
                else:
                    reply.updated.clear()
                    await reply.updated.wait()
            task.result()
        finally:
            if self._replies.get(job.id) is reply:
                del self._replies[job.id]
            reply.stop()
            # The task itself is not awaited: a cancel of this wait must not interrupt the closing.
            await asyncio.wait({task})

    def abort(self, job_id: str) -> None:
        reply = self._replies.pop(job_id, None)
        if reply is not None:
            reply.stop(Aborted(job_id))
        super().abort(job_id)

    async def aclose(self) -> None:
        self._health = Health.CLOSED
        for reply in self._replies.values():
            reply.stop(EngineGone("The engine was closed while the job ran."))
        try:
            if self._open_tasks:
                await asyncio.wait(set(self._open_tasks))
        finally:
            await self._client.aclose()
        await super().aclose()

    # A job

    def _start_request(self, job: Job) -> RunningRequest:
        """Start the task that reads the response to ``job``.

        Raises `EngineGone` or `Overloaded` if the engine takes no jobs now.
        """
        if self._health is not Health.READY:
            raise EngineGone(f"The model server at {self._address} is {self._health.value}.")
        if len(self._open_tasks) >= OPEN_FACTOR * self._capacity:
            raise Overloaded(f"{len(self._open_tasks)} jobs are open at {self._address} already.")
        assert job.id not in self._replies, f"job {job.id} runs already"
        reply = self._replies[job.id] = RunningRequest()
        task = reply.task = asyncio.create_task(self._read(job, reply))
        self._open_tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._open_tasks.discard(task)
            reply.updated.set()
            if not task.cancelled():
                # Retrieve the exception, or asyncio logs it if the caller has gone.
                task.exception()

        task.add_done_callback(ended)
        return reply

    async def _read(self, job: Job, reply: RunningRequest) -> None:
        """Send ``job`` and read its response. Raises `EngineFault` unless the model ended it."""
        body, repeated = request_body(job, self._profile, chat=self._chat, vllm=self._vllm_fields)
        try:
            async with self._client.stream(
                "POST",
                self._path,
                content=msgspec.json.encode({"model": self._model, **body}),
                headers={"Content-Type": "application/json"},
            ) as response:
                if response.status_code != 200:
                    raise self._status_fault(response.status_code)
                kind = response.headers.get("Content-Type", "")
                if not kind.startswith("text/event-stream"):
                    raise EngineFault(
                        f"{self._address} did not answer with a stream of events."
                        " Check that the url belongs to an OpenAI-compatible API."
                    )
                await self._collect(response, reply, ForcedPrefixFilter(repeated))
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise EngineGone(f"The model server at {self._address} cannot be reached.") from error
        except httpx2.ReadTimeout as error:
            raise EngineGone(
                f"The model server sent nothing for {self._read_timeout:g} s. It hangs or is"
                " overloaded."
            ) from error
        except httpx2.HTTPError as error:
            raise EngineGone("The connection to the model server broke.") from error

    async def _collect(
        self, response: httpx2.Response, reply: RunningRequest, prefix_filter: ForcedPrefixFilter
    ) -> None:
        stream = EventStreamDecoder()
        finished = False
        try:
            async with (
                asyncio.timeout(None) as drain,
                aclosing(response.aiter_bytes()) as chunks,
            ):
                async for chunk in chunks:
                    for data in stream.feed(chunk):
                        if finished or data == b"[DONE]":
                            continue
                        if self._read_event(data, reply, prefix_filter):
                            prefix_filter.end()
                            finished = True
                            loop = asyncio.get_running_loop()
                            drain.reschedule(loop.time() + DRAIN_TIMEOUT)
        except ValueError as error:  # also msgspec.DecodeError and UnicodeDecodeError
            raise EngineFault("The model server sent an event that could not be read.") from error
        except (TimeoutError, httpx2.HTTPError):
            # After the end of the text only the connection is lost, which does no harm.
            if not finished:
                raise
        if not finished:
            raise EngineGone("The model server ended the stream before the end of the text.")

    def _read_event(
        self, data: bytes, reply: RunningRequest, prefix_filter: ForcedPrefixFilter
    ) -> bool:
        """Read one event, and return True if the model ended the text with it.

        Raises `EngineFault` if the server reports an error, or ended the text otherwise.
        """
        event = msgspec.json.decode(data, type=CompletionEvent)
        if event.error is not None:
            raise self._status_fault(error_status(event.error))
        reply.note_usage(event.usage)
        for choice in event.choices[:1]:
            piece = choice.text or (choice.delta and choice.delta.content)
            if piece and (piece := prefix_filter.feed(piece)):
                reply.add(piece)
            if choice.finish_reason in ("stop", "length"):
                return True
            if choice.finish_reason == "content_filter":
                raise JobFault("The content filter of the model server stopped the text.")
            if choice.finish_reason:
                why = (
                    choice.finish_reason
                    if choice.finish_reason in KNOWN_REASONS
                    else "another reason"
                )
                raise EngineGone(
                    f"The model server ended the text with {why}, which was not asked for."
                )
        return False

    def _status_fault(self, status: int) -> EngineFault:
        """Return the fault for the HTTP status of a refusal.

        The server's message is not read. It may quote the text, and texts of meetings are private.
        """
        hint = "The log of the model server may say why."
        if status in (401, 403):
            return self._key_fault(status)
        if status in (429, 503):
            return Overloaded(f"The model server is full ({status}).", status)
        if status in (502, 504):
            message = f"There is no model behind {self._address} now ({status})."
            return EngineGone(message, hint=hint, status=status)
        kind = JobFault if status in REFUSAL_STATUSES else EngineFault
        return kind(f"The model server refused the job ({status}).", hint=hint, status=status)

    def _key_fault(self, status: int) -> EngineFault:
        wrong = "does not accept the API key" if self._api_key else "wants an API key"
        return EngineFault(
            f"The model server at {self._address} {wrong} ({status}): set openai_api_key.",
            status=status,
        )

    # The start

    async def _discover(self) -> None:
        """Request the server's list of models, and choose model and profile.

        Raises `EngineFault` if the server has no suitable model, `EngineGone` if it does not
        answer.
        """
        try:
            response = await self._client.get("models")
        except httpx2.HTTPError as error:
            raise EngineGone(
                f"No model server answers at {self._address} ({type(error).__name__}):"
                " start it, or correct the url."
            ) from error
        status = response.status_code
        if status in (401, 403):
            raise self._key_fault(status)
        if status in (404, 405) and self._model:
            return  # some routers have no list; the first job shows whether the model exists
        try:
            listed = status == 200
            models = msgspec.json.decode(response.content, type=ModelList).data if listed else []
        except ValueError as error:
            raise EngineFault(
                f"{self._address}/models is not a list of models."
                " Check that the url belongs to an OpenAI-compatible API."
            ) from error
        if not models:
            raise EngineFault(
                f"The server at {self._address} names no model (status {status})."
                " Check the url, or name the model if you know it."
            )
        self._choose_model(models)

    def _choose_model(self, models: list[ListedModel]) -> None:
        """Choose model and profile from the server's list. Raises `EngineFault`."""
        names = ", ".join(" ".join(model.id.split()) for model in models)
        names = names if len(names) <= NAMES_LIMIT else f"{names[:NAMES_LIMIT]}…"
        if self._model is None:
            if len(models) > 1:
                raise EngineFault(f"Name the model: the server at {self._address} has {names}.")
            self._model = models[0].id
        # Ollama lists "name:latest" and answers to "name".
        found = [m for m in models if m.id in (self._model, f"{self._model}:latest")]
        if not found:
            raise EngineFault(f"The server at {self._address} has no {self._model}, but {names}.")
        if self._vllm_extras is None:
            self._vllm_fields = found[0].owned_by == "vllm"
        if self._given_profile is None:
            self._profile = match(self._model)


def api_url(url: str) -> httpx2.URL:
    """Return the base URL of the API at ``url``. Raises `EngineFault` if it is malformed.

    >>> str(api_url("http://10.0.0.7:8000"))
    'http://10.0.0.7:8000/v1'
    """
    try:
        base = httpx2.URL(url.strip().rstrip("/"))
    except httpx2.InvalidURL as error:
        raise EngineFault(f"The url of the model server is malformed: {error}.") from error
    if base.scheme not in ("http", "https") or not base.host:
        raise EngineFault(
            "The url of the model server must look like http://host:port or https://host/v1."
        )
    # A version in the path means that the path is already that of the API.
    known = re.search(r"/v\d", base.path)
    return base if known else base.copy_with(path=f"{base.path.rstrip('/')}/v1")


def clean_key(api_key: str | None) -> str:
    """Return ``api_key`` without surrounding white space, such as the line end of a file.

    Raises `EngineFault`, which does not quote the key, if it has characters that no key has.
    """
    key = (api_key or "").strip()
    # The HTTP library would refuse such a key too, but with a message that quotes it.
    if not (key.isascii() and key.isprintable()):
        raise EngineFault("The API key has characters that no key has: check where it comes from.")
    return key
