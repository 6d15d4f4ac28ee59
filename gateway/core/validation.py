"""What a client may say, and in which languages: made uniform, or refused, where it comes in.

Owns: which tags the engine has, what the language of a speaker is who names none, and what is left
of a text that is all white space and control characters. Must not know: sessions, rooms.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gateway.core.model import Model
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.messages import Set
from gateway.text import languages

_BLANK = frozenset(("Cc", "Cs", "Zl", "Zp"))

AUTO = "auto"
"""The language of a speaker who leaves it to a detector."""


Detect = Callable[[str], str | None]
"""The tag of a text among the engine's languages, or None where it cannot be told."""


def speakable(tag: str, profile: Model, detect: Detect | None) -> str:
    """The normalised tag of a language the engine can translate from, or `AUTO`.

    Raises `ClientFault` (``lang_unsupported``) with the languages there are.
    """
    if tag == AUTO:
        if detect is None:
            raise ClientFault(
                ErrorCode.LANG_UNSUPPORTED,
                "This gateway has no language detector, so 'auto' is not possible.",
                "Name the language: " + ", ".join(profile.sources) + ".",
            )
        return AUTO
    lang = languages.normalise(tag)
    if languages.match(lang, profile.sources) is None:
        raise unsupported([tag], profile.sources)
    return lang


def usual(profile: Model) -> str:
    """The language of a speaker of whom nothing is known: English where the model has it."""
    return "en" if "en" in profile.sources else profile.sources[0]


def clean(text: str) -> str:
    """NFC, control characters as spaces, outer white space gone; "" where nothing is to be said."""
    text = printable(unicodedata.normalize("NFC", text)).strip()
    # Nearly every text begins with a letter or a digit, which is quicker to see.
    if text[:1].isalnum() or any(unicodedata.category(c)[0] not in "ZC" for c in text):
        return text
    return ""


def printable(text: str) -> str:
    """Put a space in the place of every control character, line separator and lone surrogate."""
    if text.isprintable():
        return text
    return "".join(" " if unicodedata.category(c) in _BLANK else c for c in text)


def said(text: str, most: int) -> str:
    """A text as it is kept. Raises `ClientFault` (``too_long``, ``empty_text``)."""
    if len(text) > most:
        raise ClientFault(
            ErrorCode.TOO_LONG,
            f"The text has {len(text)} characters; {most} are allowed.",
            "Say it in several utterances.",
        )
    text = clean(text)
    if not text:
        raise ClientFault(ErrorCode.EMPTY_TEXT, "The text is empty.", "Say at least one word.")
    return text


def cleaned(change: Set) -> Set:
    """A change of settings with its texts made uniform; terms of which nothing is left are gone."""
    if change.speaker is not None:
        change = replace(change, speaker=clean(change.speaker))
    if change.context is not None:
        change = replace(change, context=clean(change.context))
    if change.glossary is not None:
        terms = ((clean(term), clean(text)) for term, text in change.glossary.items())
        change = replace(change, glossary={term: text for term, text in terms if term and text})
    return change


def named(tags: Sequence[str], most: int) -> tuple[str, ...]:
    """The tags normalised, each once. Raises `ClientFault` (``too_many_targets``)."""
    if len(tags) > most:
        raise ClientFault(
            ErrorCode.TOO_MANY_TARGETS, f"{len(tags)} languages; one socket may name {most}."
        )
    return tuple(dict.fromkeys(map(normalised, tags)))


def normalised(tag: str) -> str:
    """The tag normalised; one that is no language stays as it is, and matches nothing."""
    try:
        return languages.normalise(tag)
    except ClientFault:
        return tag


def readable(
    tags: Sequence[str], profile: Model, most: int
) -> tuple[list[str], ClientFault | None]:
    """What of these tags can be read here, spelt correctly, and the fault of asking for the rest.

    Raises `ClientFault` (``too_many_targets``).
    """
    if len(tags) > most:
        raise ClientFault(
            ErrorCode.TOO_MANY_TARGETS, f"{len(tags)} languages; one socket may read {most}."
        )
    there, unknown = [], []
    for lang in tags:
        try:
            tag = languages.normalise(lang)
        except ClientFault:
            unknown.append(lang)
            continue
        if languages.match(tag, profile.targets) is None and not spoken(tag, profile):
            unknown.append(lang)
        else:
            there.append(tag)
    return there, unsupported(unknown, profile.targets) if unknown else None


def spoken(tag: str, profile: Model) -> bool:
    """A language that is only spoken can be read too, as it was said."""
    return languages.match(tag, profile.sources) is not None


def unsupported(tags: list[str], there: tuple[str, ...]) -> ClientFault:
    """The fault of asking for languages that are not among those there are."""
    some = ", ".join(repr(tag[:32]) for tag in tags[:5])
    return ClientFault(
        ErrorCode.LANG_UNSUPPORTED,
        f"This engine does not have {some}.",
        "It has: " + ", ".join(there) + ".",
    )
