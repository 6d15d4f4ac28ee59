"""Requests and responses of OpenAI-compatible servers.

Owns: the body of a request to the chat or the completions API, the types of the responses, and the
decoding of event streams. Must not know: sockets, tasks, time, or what the end of a response means
for a job (`gateway.engines.openai.engine`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gateway.engines.profiles import Profile
from gateway.errors import JobFault
from gateway.job import Job

EVENT_LIMIT = 1 << 20
"""Most bytes of one event. A delta takes a few hundred, so a larger event is no delta."""

STOP_LIMIT = 4
"""Most stop strings that OpenAI's API accepts; some servers refuse a fifth."""

PREFIX_LOST = (
    "The model changed the text that it had to continue, and this server cannot force it."
    " If the server is vLLM behind a router, set openai_extras."
)


def request_body(
    job: Job, profile: Profile, *, chat: bool, vllm: bool
) -> tuple[dict[str, object], str]:
    """Return the request body of ``job``, without ``model``, and the prefix its output repeats.

    `ForcedPrefixFilter` removes that prefix. It is empty if the server continues the prefix itself.

    :param chat: whether the body is for the chat API, otherwise for the completions API, which
        takes the prompt as text
    :param vllm: whether to add the fields that only vLLM has

    Raises `ClientFault` for a language that the profile does not have.
    """
    prompt = profile.prompt(job)
    sampling = profile.sampling(job)
    body: dict[str, object] = {
        "stream": True,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": profile.max_tokens(token_bound(job.text)),
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if vllm:
        # Sent even if neutral, because vLLM replaces an absent field by the model's own default.
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
        # vLLM gets no stop strings. It removes control tokens from the text, so that it would not
        # find them there, and it ends at the model's own by itself. With stop strings it would
        # withhold the last characters of every delta.
        body["stop"] = profile.stop[:STOP_LIMIT]
    if not chat:
        # Other servers always add the BOS token themselves. The text ends in the forced prefix,
        # which every server continues.
        body["prompt"] = prompt.text if vllm else prompt.text.removeprefix(profile.bos)
        return body, ""
    messages = [{"role": role, "content": content} for role, content in prompt.messages]
    repeated = ""
    if prompt.prefix and vllm:
        body["add_generation_prompt"] = False
        body["continue_final_message"] = True
    elif prompt.prefix:
        # Other servers would answer a last assistant message instead of continuing it.
        repeated = prompt.prefix
        messages.pop()
    body["messages"] = messages
    return body, repeated


def token_bound(text: str) -> int:
    """Return an upper bound of the tokens of ``text`` from its bytes, without a tokenizer."""
    # Latin scripts have about four characters to a token, Cyrillic two to three, Chinese and
    # Japanese one or a little more. One token for two bytes is twice the need of the first two, and
    # enough for the others. The bound may be generous, because it only stops runaway outputs.
    return len(text.encode()) // 2 + 1


class CompletionDelta(msgspec.Struct):
    """New text of a chat response."""

    content: str | None = None


class CompletionChoice(msgspec.Struct):
    """One output: new ``text`` (completions) or ``delta`` (chat), and how it ended if it has."""

    text: str | None = None
    delta: CompletionDelta | None = None
    finish_reason: str | None = None


class CompletionUsage(msgspec.Struct):
    """Tokens of the output so far."""

    completion_tokens: int | None = None


class ErrorBody(msgspec.Struct):
    """An error. Its message is not read, because servers may quote the request in it."""

    code: int | str | None = None


class CompletionEvent(msgspec.Struct):
    """One event of a stream of either API. A ``reasoning_content`` is not read."""

    choices: list[CompletionChoice] = []
    usage: CompletionUsage | None = None
    error: ErrorBody | str | None = None


class ListedModel(msgspec.Struct):
    """One entry of ``/v1/models``."""

    id: str
    owned_by: str | None = None


class ModelList(msgspec.Struct):
    """The response of ``/v1/models``."""

    data: list[ListedModel]


class EventStreamDecoder:
    """A decoder of the ``data`` of server-sent events, from bytes split anywhere.

    WHATWG HTML, section 9.2.6. Names, ids, retry times and comments are ignored. Lines end in CR,
    LF or CRLF and in nothing else: U+2028, which ends a line for `str.splitlines`, is ordinary text
    in JSON. The decoder works on bytes, because neither CR nor LF can be part of a longer UTF-8
    character.
    """

    def __init__(self) -> None:
        self.rest = b""
        self.data: list[bytes] = []
        self.ended_in_cr = False  # an LF after this CR belongs to the same line end

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of the events that ``chunk`` completes. Raises `ValueError` if an event is
        larger than `EVENT_LIMIT`.
        """
        if self.ended_in_cr and chunk:
            self.ended_in_cr = False
            chunk = chunk.removeprefix(b"\n")
        lines = (self.rest + chunk).splitlines(keepends=True)
        self.rest = lines.pop() if lines and not lines[-1].endswith((b"\r", b"\n")) else b""
        self.ended_in_cr = self.ended_in_cr or chunk.endswith(b"\r")
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
    """Return the HTTP status of an error inside a stream; 500 if it names none."""
    code = None if isinstance(error, str) else error.code
    return code if isinstance(code, int) else 500


class ForcedPrefixFilter:
    """A filter that removes a forced prefix from the output of a server that cannot continue one.

    If ``prefix`` is empty, the whole output passes.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.lstrip()
        self.withheld = ""

    def strip(self, text: str) -> str:
        """Return the part of ``text`` that follows the prefix. Raises `JobFault` if the output
        departs from the prefix.
        """
        if not self.prefix:
            return text
        self.withheld = (self.withheld + text).lstrip()
        if self.withheld[: len(self.prefix)] != self.prefix[: len(self.withheld)]:
            raise JobFault(PREFIX_LOST)
        if len(self.withheld) < len(self.prefix):
            return ""
        rest, self.prefix = self.withheld[len(self.prefix) :], ""
        return rest

    def finish(self) -> None:
        """Check the end of the output. Raises `JobFault` if the output ended in the prefix."""
        if self.prefix:
            raise JobFault(PREFIX_LOST)
