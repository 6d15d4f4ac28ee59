"""OpenAI's chat completions: the translation that a request asks for, and its answer.

Owns: bodies, the names of models, the rule by which a request names its languages. Must not know:
HTTP, how a text is translated. No answer counts tokens, because not every engine does.

The text is the last message of the user. Its target is in the name of the model (``translate-de``,
or with a source ``translate-en-to-de``), or else in the field ``target_lang``. Languages are not
looked for in messages: prompts also name languages that they do not want. Any other model name
stands for ``translate``, which names no language, since many tools cannot change theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from gateway.core.base.validation import AUTO
from gateway.errors import GatewayError, bad_frame
from gateway.protocol.fields import Context, Terms

Json = dict[str, Any]

MODEL = "translate"
"""Model whose target the request names elsewhere, and prefix of all other models."""
_BETWEEN = "-to-"
"""Text between source and target in the name of a model. A hyphen alone is part of many tags."""


class ContentPart(msgspec.Struct, frozen=True):
    """A part of a message: text, or something that cannot be translated."""

    type: str
    text: str = ""


class InputMessage(msgspec.Struct, frozen=True):
    """A message of a conversation."""

    role: str = ""
    content: str | tuple[ContentPart, ...] | None = None

    @property
    def text(self) -> str:
        """Text of the message. Raises `ClientFault` (``bad_frame``) if it has an image or sound."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        for part in self.content:
            if part.type != "text":
                raise bad_frame(f"A part of a message is {part.type[:32]!r}.", "Send text only.")
        return "\n".join(part.text for part in self.content)


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of ``POST /v1/chat/completions``. Fields that are not listed are ignored.

    ``source_lang``, ``target_lang``, ``context`` and ``glossary`` are this gateway's own.
    """

    EXAMPLE: ClassVar = (
        '{"model":"translate-de","messages":[{"role":"user","content":"Good morning"}]}'
    )
    model: str = MODEL
    messages: tuple[InputMessage, ...]
    stream: bool = False
    tools: tuple[Any, ...] | None = None
    n: int | None = None
    response_format: dict[str, Any] | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    context: Context | None = None
    glossary: Terms | None = None

    def wanted(self) -> tuple[str, str, str]:
        """Return the text to translate, its language or `AUTO`, and the language to translate it
        into. Raises `ClientFault`.
        """
        if self.n not in (None, 1):
            raise bad_frame("A text has one translation here.", 'Leave "n" out.')
        if self.tools:
            raise bad_frame("This gateway calls no tools.", 'Leave "tools" out.')
        if (self.response_format or {}).get("type", "text") != "text":
            raise bad_frame("A translation has the form of its text.", 'Ask for the format "text".')
        spoken = [message for message in self.messages if message.role == "user"]
        if not spoken:
            raise bad_frame("There is no message of a user.", 'Send the text with the role "user".')
        source, target = languages_of(self.model)
        if target is None:
            source, target = self.source_lang, self.target_lang
        if target is None:
            raise bad_frame(
                "The language to translate into is not known.",
                f'Name it in the model, such as "{MODEL}-de" or "{model_name("en", "de")}", or in'
                ' the field "target_lang", such as "de". Messages are not searched for languages.',
            )
        return spoken[-1].text, source or self.source_lang or AUTO, target


def model_name(source: str, target: str) -> str:
    """Return the name of the model that translates between two languages."""
    return f"{MODEL}-{source}{_BETWEEN}{target}"


def languages_of(model: str) -> tuple[str | None, str | None]:
    """Return the source and the target in the name of a model.

    >>> languages_of("translate-en-to-pt-BR")
    ('en', 'pt-BR')
    >>> languages_of("gpt-4o-mini")
    (None, None)
    """
    prefix, hyphen, pair = model.partition("-")
    if prefix != MODEL or not hyphen:
        return None, None
    source, between, target = pair.partition(_BETWEEN)
    return (source, target) if between else (None, pair)


INVALID = "invalid_request_error"
"""Type of errors that another request avoids."""


class ChatAnswer(NamedTuple):
    """One answer of ``/v1/chat/completions``, whole or streamed.

    ``id``       unique id, without the prefix that OpenAI's ids have
    ``created``  seconds since the epoch
    ``model``    name of the model, with both languages
    """

    id: str
    created: int
    model: str

    def whole(self, text: str) -> Json:
        """Return the body of an answer that is not streamed."""
        message = {"role": "assistant", "content": text, "refusal": None}
        return self._body("chat.completion", message=message, finish_reason="stop")

    def chunk(self, finish: str | None = None, **delta: str) -> Json:
        """Return an event of a stream. The first has the ``role``, and the last is a ``finish``."""
        return self._body("chat.completion.chunk", delta=delta, finish_reason=finish)

    def _body(self, kind: str, **choice: object) -> Json:
        return {
            "id": f"chatcmpl-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "logprobs": None, **choice}],
        }


def error(fault: GatewayError, status: int) -> Json:
    """Return the body of an error, whose type follows from the HTTP status."""
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else INVALID
    message = str(fault) if fault.hint is None else f"{fault} {fault.hint}"
    about = {"message": message, "type": kind, "param": None, "code": fault.code.value}
    return {"error": about}


def models(targets: Sequence[str]) -> list[Json]:
    """Return the list of models, one for each language that can be translated into."""
    return [model(name) for name in (MODEL, *(f"{MODEL}-{target}" for target in targets))]


def model(name: str) -> Json:
    """Return the description of a model."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "caption-gateway"}
