"""The wire of OpenAI-compatible servers: what is sent for a job, and what comes back.

Owns: the body of a request to either API, chat or completions, the shapes of the answers, and how
bytes become events. Must not know: sockets, tasks, time, or what an ending means for the job, which
is `gateway.engines.openai.engine`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gateway.engines.profiles import Profile
from gateway.errors import JobFault
from gateway.job import Job

EVENT_LIMIT = 1 << 20
"""Bytes of one event. A delta takes a few hundred; more is not an event stream."""

STOPS = 4
"""Stop strings that OpenAI's API takes; some servers refuse a fifth."""


def request(job: Job, profile: Profile, *, chat: bool, vllm: bool) -> tuple[dict[str, object], str]:
    """The body for ``job`` but for its model, and the prefix its output repeats (see
    `ForcedPrefixFilter`).

    :param chat: for the chat API, else for the one that takes the prompt as text
    :param vllm: with the fields only vLLM has
    """
    prompt = profile.prompt(job)
    sampling = profile.sampling(job)
    body: dict[str, object] = {
        "stream": True,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": profile.max_tokens(tokens(job.text)),
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if vllm:
        # Explicit even where neutral: vLLM takes what is absent from the model's own defaults.
        body["top_k"] = sampling.top_k
        body["repetition_penalty"] = sampling.repetition_penalty
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        if job.priority:
            body["priority"] = int(job.priority)
        if chat and profile.server:
            body["chat_template_kwargs"] = profile.server  # such as thinking off
        if not chat:
            body["add_special_tokens"] = False
    elif profile.stop:
        # vLLM is not sent them. It could not find control tokens in text it has cleared of
        # them, ends at those of the model by itself, and would hold back the last characters
        # of every delta to look for them.
        body["stop"] = profile.stop[:STOPS]
    if not chat:
        # Other servers add the BOS themselves, unasked. A forced prefix ends the text, and any
        # server continues it.
        body["prompt"] = prompt.text if vllm else prompt.text.removeprefix(profile.bos)
        return body, ""
    messages = [{"role": role, "content": said} for role, said in prompt.messages]
    repeats = ""
    if prompt.prefix and vllm:
        body["add_generation_prompt"] = False
        body["continue_final_message"] = True
    elif prompt.prefix:
        repeats = prompt.prefix
        messages.pop()
    body["messages"] = messages
    return body, repeats


def tokens(text: str) -> int:
    """How many tokens ``text`` has at most, by its bytes, as the tokenizer is on the server.

    Latin scripts have about four characters to a token, Cyrillic two to three, Chinese and
    Japanese one or a little more: two bytes to a token is twice what is needed for the first two
    and enough for the third. Generous, as it only bounds a runaway output.
    """
    return len(text.encode()) // 2 + 1


class CompletionDelta(msgspec.Struct):
    content: str | None = None


class CompletionChoice(msgspec.Struct):
    text: str | None = None
    delta: CompletionDelta | None = None
    finish_reason: str | None = None


class CompletionUsage(msgspec.Struct):
    completion_tokens: int | None = None


class ErrorBody(msgspec.Struct):
    """An error. Its message is not read: servers like to quote what they got."""

    code: int | str | None = None


class CompletionEvent(msgspec.Struct):
    """One ``data:`` of a stream, of either API. A ``reasoning_content`` is not read."""

    choices: list[CompletionChoice] = []
    usage: CompletionUsage | None = None
    error: ErrorBody | str | None = None


class ListedModel(msgspec.Struct):
    id: str
    owned_by: str | None = None


class ModelList(msgspec.Struct):
    data: list[ListedModel]


class EventStreamDecoder:
    """The ``data`` of server-sent events, from bytes cut anywhere (WHATWG HTML, 9.2.6).

    Names, ids, retry times and comments are passed over. Lines end in CR, LF or CRLF and in
    nothing else: U+2028, which ends a line for `str.splitlines`, is ordinary text in JSON. Bytes
    suffice, as neither CR nor LF can be part of a longer UTF-8 character.
    """

    def __init__(self) -> None:
        self.rest = b""
        self.data: list[bytes] = []
        self.half = False  # the last byte was a CR: an LF that comes next belongs to it

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the events that ``chunk`` completes. Raises `ValueError` beyond `EVENT_LIMIT`."""
        if self.half and chunk:
            self.half = False
            chunk = chunk.removeprefix(b"\n")
        lines = (self.rest + chunk).splitlines(keepends=True)
        self.rest = lines.pop() if lines and not lines[-1].endswith((b"\r", b"\n")) else b""
        self.half = self.half or chunk.endswith(b"\r")
        for line in lines:
            line = line.rstrip(b"\r\n").removeprefix(b"\xef\xbb\xbf")
            if line.startswith(b"data:"):
                self.data.append(line[5:].removeprefix(b" "))
            elif not line and self.data:
                event, self.data = b"\n".join(self.data), []
                yield event
        if len(self.rest) + sum(map(len, self.data)) > EVENT_LIMIT:
            raise ValueError(f"an event of more than {EVENT_LIMIT} bytes")


def error_status(error: ErrorBody | str) -> int:
    """Return the HTTP status of an error inside a stream: 500 where it names none."""
    code = None if isinstance(error, str) else error.code
    return code if isinstance(code, int) else 500


class ForcedPrefixFilter:
    """Takes a forced prefix off the output of a server that can only start from nothing.

    Passes everything through when ``prefix`` is empty.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.lstrip()
        self.held = ""

    def feed(self, text: str) -> str:
        """Return what of ``text`` continues the prefix. Raises `JobFault` where it departs."""
        if not self.prefix:
            return text
        self.held = (self.held + text).lstrip()
        if self.held[: len(self.prefix)] != self.prefix[: len(self.held)]:
            self.depart()
        if len(self.held) < len(self.prefix):
            return ""
        rest, self.prefix = self.held[len(self.prefix) :], ""
        return rest

    def end(self) -> None:
        """End the output. Raises `JobFault` if it never got past the prefix."""
        if self.prefix:
            self.depart()

    def depart(self) -> None:
        raise JobFault(
            "The model did not keep the text it had to continue, and its server cannot be made to."
            " If the server is vLLM behind a router, say so with vllm_extras."
        )
