"""Any OpenAI-compatible server as an engine: streaming HTTP, one connection per job.

Owns: connections, the task of each job, and what every way of ending it means. Must not know: how
requests and events are written (`completions`), whether the server is well (the supervisor tells by
what becomes of jobs), clients, rooms, or which of the servers it talks to (``vllm serve``,
vllm-router, Ray Serve LLM, llm-d, llama.cpp, Ollama), but for one thing: whether it takes the
fields that only vLLM has.

Each job has one task that reads its response. That task alone touches the response, and it is
cancelled at most once: closing the response is what makes the server abort, and a second cancel
would interrupt the closing. See ``docs/design/openai.md``.
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
    request,
)
from gateway.engines.profiles import Profile, match
from gateway.errors import EngineFault, EngineGone, JobFault, Overloaded
from gateway.job import Chunk, Job

logger = logging.getLogger(__name__)
# At DEBUG it logs the headers of answers, in which a server may quote the text.
logging.getLogger("httpcore2").setLevel(logging.WARNING)

CAPACITY = 16
"""Jobs at once: the ``max_num_seqs`` this project gives vLLM. More would only share its time."""

CROWD = 4
"""Times ``capacity`` beyond which `translate` refuses a job: bounds sockets and memory."""

CONNECT_TIMEOUT = 3.0
"""Seconds to open a connection. A model server that is near answers in milliseconds."""

READ_TIMEOUT = 20.0
"""Seconds between two pieces of a response; the first includes the server's own queue."""

DRAIN_TIMEOUT = 0.5
"""Seconds to wait for the end of a response whose text is complete, to reuse its connection."""

KEEPALIVE = 3.0
"""Seconds an idle connection is kept. Less than the 5 s of uvicorn, which runs most servers: the
side that sends the next request must be the one that gives up first."""

OUTPUT_LIMIT = 1 << 16
"""Characters of one translation that wait to be read or were read: a bound on memory. What is too
long to be a translation is for the guards, and far below this."""

REFUSED = (400, 413, 422)
"""Statuses with which a server refuses one text, such as one that is too long for its model."""

ENDS = ("abort", "error", "function_call", "tool_calls")
"""Reasons for an end that may be named in a message; any other could be anything."""

NAMES_LIMIT = 200
"""Characters of the names of a server's models that go into a message."""


class Reply:
    """One job at work: what has come of it, and the fault that stopped it from here."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0
        self.tokens = 0
        self.counted = 0
        self.news = asyncio.Event()
        self.fault: EngineFault | None = None
        self.task: asyncio.Task[None] | None = None
        self.stopped = False

    def add(self, text: str) -> None:
        """Keep ``text`` for the caller. Raises `JobFault` beyond `OUTPUT_LIMIT`."""
        self.size += len(text)
        if self.size > OUTPUT_LIMIT:
            raise JobFault("The model server sent far more text than it was asked for.")
        self.pieces.append(text)
        self.news.set()

    def count(self, usage: CompletionUsage | None) -> None:
        """Note how many tokens there are by now, where the server tells with each piece."""
        if usage is not None and usage.completion_tokens is not None:
            self.tokens = usage.completion_tokens

    def take(self) -> Chunk:
        """All that waits as one chunk: a caller who is late gets longer chunks, not a queue."""
        chunk = Chunk("".join(self.pieces), max(0, self.tokens - self.counted))
        self.counted = self.tokens
        self.pieces.clear()
        return chunk

    def stop(self, fault: EngineFault | None = None) -> None:
        """Close the response and end the job with ``fault``. Only the first call counts."""
        if not self.stopped and self.task is not None:
            self.stopped = True
            self.fault = fault
            self.task.cancel()
            self.news.set()


class OpenAIEngine(PullEngine):
    """An `Engine` that has its work done by an OpenAI-compatible server.

    :param url: the server, with or without ``/v1``. Proxies of the environment are honoured
    :param model: name the server knows it by; None takes the only one it has
    :param api_key: sent as bearer token, and written nowhere
    :param profile: how to prompt the model; None chooses by its name
    :param api: ``chat`` lets the server apply its chat template, ``completions`` sends the prompt
        as text; ``auto`` is ``chat`` for chat profiles
    :param capacity: jobs at once, as `Engine.capacity`
    :param vllm_extras: send the fields only vLLM has; None does so when the server says it is vLLM
    :param connect_timeout: seconds, see `CONNECT_TIMEOUT`
    :param read_timeout: seconds, see `READ_TIMEOUT`

    Raises `EngineFault` for a url or key that cannot be one.
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
        connect_timeout: float = CONNECT_TIMEOUT,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        super().__init__()
        base = address(url)
        # Without the login that a url may carry: this is for people and logs.
        self._where = f"{base.scheme}://{base.netloc.decode()}{base.path}"
        self._key = key(api_key)
        self._model = model
        self._chosen = profile
        self._profile = profile or match(model or "")
        self._api = api
        self._capacity = capacity
        self._extras = vllm_extras
        self._vllm = bool(vllm_extras)
        self._read_timeout = read_timeout
        self._health = Health.STARTING
        self._replies: dict[str, Reply] = {}
        self._open: set[asyncio.Task[None]] = set()
        headers = {"Accept": "text/event-stream, application/json", "Accept-Encoding": "identity"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._client = httpx2.AsyncClient(
            base_url=base,
            headers=headers,
            timeout=httpx2.Timeout(read_timeout, connect=connect_timeout, pool=connect_timeout),
            limits=httpx2.Limits(
                max_connections=CROWD * capacity + 1,  # one for the start: nobody waits in the pool
                max_keepalive_connections=capacity,
                keepalive_expiry=KEEPALIVE,
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
        """Requests whose response is open; after `abort`, until it is closed."""
        return len(self._open)

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
                f"The profile {self._profile.name} is not one of a chat model:"
                " set api to completions, or choose another profile."
            )
        self._health = Health.READY
        logger.info(
            "%s at %s, profile %s, %s, vLLM's fields %s",
            self.name,
            self._where,
            self._profile.name,
            self._path,
            "on" if self._vllm else "off",
        )

    async def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        reply = self._send(job)
        task = reply.task
        assert task is not None, "_send starts it"
        try:
            while True:
                if reply.fault is not None:
                    raise reply.fault
                if reply.pieces:
                    yield reply.take()
                elif task.done():
                    break
                else:
                    reply.news.clear()
                    await reply.news.wait()
            task.result()
        finally:
            if self._replies.get(job.id) is reply:
                del self._replies[job.id]
            reply.stop()
            # Not awaited itself: whoever cancels this wait must not cancel the closing.
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
            if self._open:
                await asyncio.wait(set(self._open))
        finally:
            await self._client.aclose()
        await super().aclose()

    # A job

    def _send(self, job: Job) -> Reply:
        if self._health is not Health.READY:
            raise EngineGone(f"The model server at {self._where} is {self._health.value}.")
        if len(self._open) >= CROWD * self._capacity:
            raise Overloaded(f"{len(self._open)} jobs are open at {self._where} already.")
        assert job.id not in self._replies, f"job {job.id} runs already"
        reply = self._replies[job.id] = Reply()
        task = reply.task = asyncio.create_task(self._read(job, reply))
        self._open.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._open.discard(task)
            reply.news.set()
            if not task.cancelled():
                task.exception()  # seen, also when the caller has left and will not ask

        task.add_done_callback(ended)
        return reply

    async def _read(self, job: Job, reply: Reply) -> None:
        """Send ``job`` and collect its output. Raises `EngineFault` unless the model ended it."""
        body, repeats = request(job, self._profile, chat=self._chat, vllm=self._vllm)
        try:
            async with self._client.stream(
                "POST",
                self._path,
                content=msgspec.json.encode({"model": self._model, **body}),
                headers={"Content-Type": "application/json"},
            ) as response:
                if response.status_code != 200:
                    raise self._fault(response.status_code)
                kind = response.headers.get("Content-Type", "")
                if not kind.startswith("text/event-stream"):
                    raise EngineFault(
                        f"{self._where} did not answer with a stream of events."
                        " Check that the url is that of an OpenAI-compatible API."
                    )
                await self._collect(response, reply, ForcedPrefixFilter(repeats))
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise EngineGone(f"The model server at {self._where} cannot be reached.") from error
        except httpx2.ReadTimeout as error:
            raise EngineGone(
                f"The model server sent nothing for {self._read_timeout:g} s. It is stuck, or has"
                " far more to do than it can."
            ) from error
        except httpx2.HTTPError as error:
            raise EngineGone("The connection to the model server broke.") from error

    async def _collect(
        self, response: httpx2.Response, reply: Reply, restart: ForcedPrefixFilter
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
                        if self._take(data, reply, restart):
                            restart.end()
                            finished = True
                            loop = asyncio.get_running_loop()
                            drain.reschedule(loop.time() + DRAIN_TIMEOUT)
        except ValueError as error:  # msgspec.DecodeError, UnicodeDecodeError and our own
            raise EngineFault("The model server sent an event that could not be read.") from error
        except (TimeoutError, httpx2.HTTPError):
            # After the end of the text only the connection is lost, and it is closed anyway.
            if not finished:
                raise
        if not finished:
            raise EngineGone("The model server ended the stream before the end of the text.")

    def _take(self, data: bytes, reply: Reply, restart: ForcedPrefixFilter) -> bool:
        """Read one event; True when the model ended the text with it."""
        event = msgspec.json.decode(data, type=CompletionEvent)
        if event.error is not None:
            raise self._fault(error_status(event.error))
        reply.count(event.usage)
        for choice in event.choices[:1]:
            piece = choice.text or (choice.delta and choice.delta.content)
            if piece and (piece := restart.feed(piece)):
                reply.add(piece)
            if choice.finish_reason in ("stop", "length"):
                return True
            if choice.finish_reason == "content_filter":
                raise JobFault("The content filter of the model server stopped the text.")
            if choice.finish_reason:
                why = choice.finish_reason if choice.finish_reason in ENDS else "another reason"
                raise EngineGone(
                    f"The model server ended the text with {why}, which was not asked for."
                )
        return False

    def _fault(self, status: int) -> EngineFault:
        """Return what the HTTP status of a refusal means.

        The server's words are not read. They may quote the text, cut or in another spelling, and
        texts of meetings are private.
        """
        hint = "The log of the model server may say why."
        if status in (401, 403):
            return self._unwelcome(status)
        if status in (429, 503):
            return Overloaded(f"The model server is full ({status}).", status)
        if status in (502, 504):
            said = f"There is no model behind {self._where} now ({status})."
            return EngineGone(said, hint=hint, status=status)
        kind = JobFault if status in REFUSED else EngineFault
        return kind(f"The model server refused the job ({status}).", hint=hint, status=status)

    def _unwelcome(self, status: int) -> EngineFault:
        wrong = "does not accept the API key" if self._key else "wants an API key"
        return EngineFault(
            f"The model server at {self._where} {wrong} ({status}): set openai_api_key.",
            status=status,
        )

    # The start

    async def _discover(self) -> None:
        """Ask the server for its models; choose model and profile. Raises `EngineFault`."""
        try:
            response = await self._client.get("models")
        except httpx2.HTTPError as error:
            raise EngineGone(
                f"No model server answers at {self._where} ({type(error).__name__}):"
                " start it, or correct the url."
            ) from error
        status = response.status_code
        if status in (401, 403):
            raise self._unwelcome(status)
        if status in (404, 405) and self._model:
            return  # some routers have no list; the first job will tell
        try:
            listed = status == 200
            models = msgspec.json.decode(response.content, type=ModelList).data if listed else []
        except ValueError as error:
            raise EngineFault(
                f"{self._where}/models is not a list of models."
                " Check that the url is that of an OpenAI-compatible API."
            ) from error
        if not models:
            raise EngineFault(
                f"The server at {self._where} names no model (status {status})."
                " Check the url, or name the model if you know it."
            )
        self._choose(models)

    def _choose(self, models: list[ListedModel]) -> None:
        names = ", ".join(" ".join(model.id.split()) for model in models)
        names = names if len(names) <= NAMES_LIMIT else f"{names[:NAMES_LIMIT]}…"
        if self._model is None:
            if len(models) > 1:
                raise EngineFault(f"Name the model: the server at {self._where} has {names}.")
            self._model = models[0].id
        # Ollama lists "name:latest" and answers to "name".
        found = [m for m in models if m.id in (self._model, f"{self._model}:latest")]
        if not found:
            raise EngineFault(f"The server at {self._where} has no {self._model}, but {names}.")
        if self._extras is None:
            self._vllm = found[0].owned_by == "vllm"
        if self._chosen is None:
            self._profile = match(self._model)


def address(url: str) -> httpx2.URL:
    """The base url of the API. Raises `EngineFault`.

    >>> str(address("http://10.0.0.7:8000"))
    'http://10.0.0.7:8000/v1'
    """
    try:
        base = httpx2.URL(url.strip().rstrip("/"))
    except httpx2.InvalidURL as error:
        raise EngineFault(f"The url of the model server cannot be read: {error}.") from error
    if base.scheme not in ("http", "https") or not base.host:
        raise EngineFault(
            "The url of the model server must look like http://host:port or https://host/v1."
        )
    # A version somewhere in the path says that the path is the API's already.
    known = re.search(r"/v\d", base.path)
    return base if known else base.copy_with(path=f"{base.path.rstrip('/')}/v1")


def key(api_key: str | None) -> str:
    """``api_key`` without the line end that files leave on it. Raises `EngineFault`, without it."""
    key = (api_key or "").strip()
    # The HTTP library would refuse it too, and quote it.
    if not (key.isascii() and key.isprintable()):
        raise EngineFault("The API key has characters that no key has: check where it comes from.")
    return key
