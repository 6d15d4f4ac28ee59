"""The engine for OpenAI-compatible servers: streaming HTTP, one connection for each job.

Owns: connections, and what each way in which a response ends means. Must not know: the form of
requests and events (`gateway.engines.openai.completions`), whether the server works (the supervisor
decides that from the ends of jobs), clients, rooms, or which server it is (``vllm serve``,
vllm-router, Ray Serve LLM, llm-d, llama.cpp, Ollama), except whether the server accepts the fields
that only vLLM has.

Each job has one task that reads its response. The server aborts a job when its response is closed.
See ``docs/design/openai.md``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Literal

import httpx2
import msgspec

from gateway.engines.base.engine import PullEngine, Sink, log_ids
from gateway.engines.openai.completions import (
    CompletionEvent,
    EventStreamDecoder,
    ForcedPrefixFilter,
    ListedModel,
    ModelList,
    error_status,
    request_body,
)
from gateway.engines.openai.server import SESSION_HEADER, ModelServer, session_id
from gateway.engines.profiles import Profile, match
from gateway.errors import EngineFault, EngineGone, JobFault
from gateway.job import Chunk, Job

logger = logging.getLogger(__name__)

CAPACITY = 16
"""Default number of jobs at once, as ``max_num_seqs`` of the vLLM engine here."""

OPEN_FACTOR = 4
"""A job is refused if this many times ``capacity`` are open. Bounds sockets and memory."""

READ_TIMEOUT = 20.0
"""Seconds between two pieces of a response. The first wait includes the server's own queue."""

DRAIN_TIMEOUT = 0.5
"""Seconds to wait for the end of a response after its text is complete, to reuse the connection."""

OUTPUT_LIMIT = 1 << 16
"""Most characters of one response: a bound of memory. The guards reject far shorter outputs as too
long for a translation."""

KNOWN_REASONS = ("abort", "error", "function_call", "tool_calls")
"""Finish reasons that may be quoted in a message. Any other might contain private text."""

HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}

NAMES_LIMIT = 200
"""Characters of a list of model names in a message."""


class BrokenResponse(EngineGone):
    """The end of a response that broke off. The job is sent again once: behind a router the server
    that was lost is one of many.
    """


class CompletionReply:
    """The response to one job, as far as it has arrived."""

    def __init__(self, repeated: str) -> None:
        self.stream = EventStreamDecoder()
        self.pieces: list[str] = []  # not in a chunk yet
        self.tokens = 0  # in all
        self.finished = False
        self._prefix_filter = ForcedPrefixFilter(repeated)
        self._size = 0  # characters in all
        self._reported_tokens = 0  # in a chunk already

    def add(self, text: str) -> None:
        """Add new text. Raises `JobFault` if the output exceeds `OUTPUT_LIMIT`."""
        if text and (text := self._prefix_filter.strip(text)):
            self._size += len(text)
            if self._size > OUTPUT_LIMIT:
                raise JobFault("The model server sent far more text than it was asked for.")
            self.pieces.append(text)

    def finish(self) -> None:
        """Note that the model ended the text. Raises `JobFault` if it ended in the prefix."""
        self._prefix_filter.finish()
        self.finished = True

    def take_chunk(self) -> Chunk:
        """Return the text of one read from the network as one chunk."""
        chunk = Chunk("".join(self.pieces), max(0, self.tokens - self._reported_tokens))
        self._reported_tokens = self.tokens
        self.pieces.clear()
        return chunk


class OpenAIEngine(PullEngine):
    """An `Engine` that translates through an OpenAI-compatible server.

    :param url: see `ModelServer`, also for ``api_key``
    :param model: the server's name of the model; None if it has only one
    :param profile: None: found by the name of the model
    :param api: ``chat`` has the server apply its chat template, ``completions`` sends the prompt as
        text, ``auto`` is ``chat`` for chat profiles
    :param vllm_extras: whether to send the fields that only vLLM has. None: if the server reports
        that it is vLLM

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
        self._server = ModelServer(
            url,
            api_key,
            key_setting="openai_api_key",
            capacity=capacity,
            # Two more, for `start` and for the end of sessions, so that no job waits for one.
            connections=OPEN_FACTOR * capacity + 2,
            read_timeout=read_timeout,
        )
        super().__init__("openai", profile or match(model or ""), capacity)
        self._set_model(model)
        self._given_profile = profile
        self._api = api
        self._vllm_extras = vllm_extras
        self._vllm_fields = bool(vllm_extras)
        self._read_timeout = read_timeout
        self._client = self._server.client

    @property
    def _chat(self) -> bool:
        return self._api == "chat" or (self._api == "auto" and self._profile.kind == "chat")

    @property
    def _path(self) -> str:
        return "chat/completions" if self._chat else "completions"

    async def start(self) -> None:
        await self._discover()
        if self._chat and self._profile.kind != "chat":
            raise EngineFault(
                f"The profile {self._profile.name} is not for a chat model:"
                " set openai_api to completions, or choose another profile."
            )
        await super().start()
        where, profile = self._server.address, self._profile.name
        fields = "on" if self._vllm_fields else "off"
        told = "%s at %s, profile %s, %s, vLLM's fields %s"
        logger.info(told, self.name, where, profile, self._path, fields)

    def submit(self, job: Job, sink: Sink) -> None:
        # A job that was aborted counts until its connection is closed.
        if self._admit(sink, OPEN_FACTOR * self._capacity):
            super().submit(job, sink)

    async def aclose(self) -> None:
        try:
            await super().aclose()
        finally:
            await self._client.aclose()

    # A job

    async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
        shown = False
        try:
            async with aclosing(self._attempt(job)) as chunks:
                async for chunk in chunks:
                    shown = True
                    yield chunk
            return
        except BrokenResponse as fault:
            logger.info("job %s is sent again: %s", job.id, fault.summary, extra=log_ids(job))
        async with aclosing(self._attempt(job)) as chunks:
            async for chunk in chunks:
                yield msgspec.structs.replace(chunk, reset=True) if shown else chunk
                shown = False
        if shown:  # the second response had no text to void the first one with
            yield Chunk("", 0, reset=True)

    async def _attempt(self, job: Job) -> AsyncGenerator[Chunk]:
        """Stream one response to ``job``. Raises `EngineFault` as `generate`."""
        body, repeated = request_body(job, self._profile, chat=self._chat, vllm=self._vllm_fields)
        reply = CompletionReply(repeated)
        content = msgspec.json.encode({"model": self._model, **body})
        session = {SESSION_HEADER: session_id(job.room, job.target)} if job.room else {}
        stream = self._client.stream("POST", self._path, content=content, headers=HEADERS | session)
        with self._connection_faults(reply):
            async with (
                stream as response,
                asyncio.timeout(None) as drain,
                aclosing(response.aiter_bytes()) as reads,
            ):
                self._check_response(response)
                async for data in reads:
                    try:
                        self._read_events(data, reply)
                    except EngineFault:
                        if reply.pieces:
                            yield reply.take_chunk()
                        raise
                    if reply.pieces:
                        yield reply.take_chunk()
                    if reply.finished and drain.when() is None:
                        drain.reschedule(asyncio.get_running_loop().time() + DRAIN_TIMEOUT)
        if not reply.finished:
            raise BrokenResponse("The model server ended the stream before the end of the text.")

    @contextmanager
    def _connection_faults(self, reply: CompletionReply) -> Iterator[None]:
        """Raise an `EngineGone` if a connection breaks, unless the text is complete."""
        try:
            yield
        except (TimeoutError, httpx2.HTTPError) as error:
            # After the end of the text only the connection is lost, which does no harm.
            if reply.finished:
                return
            if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
                why = f"The model server at {self._server.address} cannot be reached."
                raise EngineGone(why) from error
            if isinstance(error, httpx2.ReadTimeout):
                why = f"The model server sent nothing for {self._read_timeout:g} s."
                raise EngineGone(f"{why} It hangs or is overloaded.") from error
            kind = EngineGone if isinstance(error, httpx2.TimeoutException) else BrokenResponse
            raise kind("The connection to the model server broke.") from error

    def _check_response(self, response: httpx2.Response) -> None:
        """Raise `EngineFault` unless the server answers with a stream of events."""
        if response.status_code != 200:
            raise self._server.fault(response.status_code)
        if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
            raise EngineFault(
                f"{self._server.address} did not answer with a stream of events."
                " Check that the url belongs to an OpenAI-compatible API."
            )

    def _read_events(self, data: bytes, reply: CompletionReply) -> None:
        """Add the events that ``data`` completes to ``reply``. Raises `EngineFault`."""
        try:
            for event in reply.stream.decode(data):
                if not reply.finished and event != b"[DONE]":
                    self._read_event(event, reply)
        except ValueError as error:  # also msgspec.DecodeError and UnicodeDecodeError
            raise EngineFault("The model server sent an event that could not be read.") from error

    def _read_event(self, data: bytes, reply: CompletionReply) -> None:
        """Add one event to ``reply``. Raises `EngineFault` if the server reports an error, or ended
        the text before the model did.
        """
        event = msgspec.json.decode(data, type=CompletionEvent)
        if event.error is not None:
            raise self._server.fault(error_status(event.error))
        if event.usage is not None and event.usage.completion_tokens is not None:
            reply.tokens = event.usage.completion_tokens
        for choice in event.choices[:1]:
            reply.add(choice.text or (choice.delta and choice.delta.content) or "")
            match choice.finish_reason:
                case "stop" | "length":
                    reply.finish()
                case "content_filter":
                    raise JobFault("The content filter of the model server stopped the text.")
                case str(reason) if reason:
                    why = reason if reason in KNOWN_REASONS else "another reason"
                    # A vLLM that is being stopped ends its responses with ``abort``.
                    kind = BrokenResponse if reason in ("abort", "error") else EngineGone
                    ended = f"ended the text with {why}, which was not asked for"
                    raise kind(f"The model server {ended}.")

    # The start

    async def _discover(self) -> None:
        """Request the server's list of models, and choose model and profile. Raises `EngineFault`
        if it has no suitable model, `EngineGone` if it does not answer.
        """
        response = await self._server.list_models()
        status = response.status_code
        if status in (404, 405) and self._model:
            return  # some routers have no list; the first job shows whether the model exists
        try:
            listed = status == 200
            models = msgspec.json.decode(response.content, type=ModelList).data if listed else []
        except ValueError as error:
            raise EngineFault(
                f"{self._server.address}/models is not a list of models."
                " Check that the url belongs to an OpenAI-compatible API."
            ) from error
        if not models:
            raise EngineFault(
                f"The server at {self._server.address} names no model (status {status})."
                " Check the url, or name the model if you know it."
            )
        self._choose_model(models)

    def _set_model(self, model: str | None) -> None:
        self._model = model
        self._name = f"openai:{model}" if model else "openai"

    def _choose_model(self, models: list[ListedModel]) -> None:
        """Choose model and profile from the server's list. Raises `EngineFault`."""
        names = ", ".join(" ".join(model.id.split()) for model in models)
        names = names if len(names) <= NAMES_LIMIT else f"{names[:NAMES_LIMIT]}…"
        if self._model is None and len(models) > 1:
            raise EngineFault(f"Name the model: the server at {self._server.address} has {names}.")
        model = self._model or models[0].id
        self._set_model(model)
        # Ollama lists "name:latest" and answers to "name".
        named = [m for m in models if m.id in (model, f"{model}:latest")]
        if not named:
            raise EngineFault(f"The server at {self._server.address} has no {model}, but {names}.")
        if self._vllm_extras is None:
            self._vllm_fields = named[0].owned_by == "vllm"
        if self._given_profile is None:
            self._profile = match(model)
