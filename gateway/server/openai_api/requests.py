"""Requests of OpenAI's text APIs, and the translation that each asks for.

Owns: the bodies of ``/v1/chat/completions`` and ``/v1/responses``, the names of models, and the
rule by which a request names its languages. Must not know: HTTP, how a text is translated.

The rule, in this order; the first that names a target decides:

1. the model: ``translate-de``, or with a source ``translate-en-to-de``
2. the fields ``target_lang`` and ``source_lang`` of the body
3. the instructions: a language named in a system message (`gateway.text.mentions`)

The text is the last message of the user. Any other model name stands for ``translate``, which names
no language, since many tools cannot change theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import msgspec

from gateway.core.base.validation import AUTO
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.fields import Context, Terms
from gateway.text import mentions

MODEL = "translate"
"""Model whose target the request names elsewhere, and prefix of all other models."""
_BETWEEN = "-to-"
"""Text between source and target in the name of a model. A hyphen alone is part of many tags."""


class ContentPart(msgspec.Struct, frozen=True):
    """A part of a message: text, or something that cannot be translated."""

    type: str
    text: str = ""


class InputMessage(msgspec.Struct, frozen=True):
    """A message of a conversation, or an item of another kind, which has no role."""

    role: str = ""
    content: str | tuple[ContentPart, ...] | None = None

    @property
    def text(self) -> str:
        """Text of the message. Raises `ClientFault` (``bad_frame``) if it has an image or sound."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        for part in self.content:
            if part.type not in ("text", "input_text", "output_text"):
                raise _refused(f"A part of a message is {part.type[:32]!r}.", "Send text only.")
        return "\n".join(part.text for part in self.content)


class _TextRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that both APIs have, and those of this gateway beside OpenAI's."""

    model: str = MODEL
    stream: bool = False
    tools: tuple[Any, ...] | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    context: Context | None = None
    glossary: Terms | None = None


class ChatRequest(_TextRequest, frozen=True, kw_only=True):
    """The body of ``POST /v1/chat/completions``. Fields that are not listed are ignored."""

    EXAMPLE: ClassVar = (
        '{"model":"translate-de","messages":[{"role":"user","content":"Good morning"}]}'
    )
    messages: tuple[InputMessage, ...]
    n: int | None = None
    response_format: dict[str, Any] | None = None

    def wanted(self) -> WantedTranslation:
        """Return what is to be translated. Raises `ClientFault`."""
        if self.n not in (None, 1):
            raise _refused("A text has one translation here.", 'Leave "n" out.')
        return _wanted(self, self.messages, self.response_format)


class ResponsesRequest(_TextRequest, frozen=True, kw_only=True):
    """The body of ``POST /v1/responses``. Fields that are not listed are ignored."""

    EXAMPLE: ClassVar = '{"model":"translate-de","input":"Good morning"}'
    input: str | tuple[InputMessage, ...]
    instructions: str | None = None
    text: dict[str, Any] | None = None

    def wanted(self) -> WantedTranslation:
        """Return what is to be translated. Raises `ClientFault`."""
        said = self.input
        messages = (InputMessage("user", said),) if isinstance(said, str) else said
        if self.instructions is not None:
            messages = (InputMessage("system", self.instructions), *messages)
        return _wanted(self, messages, (self.text or {}).get("format"))


class WantedTranslation(NamedTuple):
    """The translation that a request asks for. ``source`` may be `AUTO`."""

    text: str
    source: str
    target: str


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


def _wanted(
    request: _TextRequest, messages: Iterable[InputMessage], format: Any
) -> WantedTranslation:
    if request.tools:
        raise _refused("This gateway calls no tools.", 'Leave "tools" out.')
    kind = format.get("type") if isinstance(format, dict) else None
    if kind not in (None, "text"):
        raise _refused("A translation has the form of its text.", 'Ask for the format "text".')
    spoken = [message for message in messages if message.role == "user"]
    if not spoken:
        raise _refused("There is no message of a user.", 'Send the text with the role "user".')
    source, target = languages_of(request.model)
    if target is None:
        source, target = request.source_lang, request.target_lang
    if target is None:
        instructions = "\n".join(
            message.text for message in messages if message.role in ("system", "developer")
        )
        named = mentions.direction(instructions)
        source, target = source or named.source, named.target
    if target is None:
        raise _refused(
            "The language to translate into is not known.",
            f'Name it in one of three ways: the model ("{MODEL}-de"), the field "target_lang"'
            ' ("de"), or a system message that names one language ("Translate into German.").',
        )
    return WantedTranslation(spoken[-1].text, source or request.source_lang or AUTO, target)


def _refused(message: str, hint: str) -> ClientFault:
    return ClientFault(ErrorCode.BAD_FRAME, message, hint)
