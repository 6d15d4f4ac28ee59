"""Validation of texts and language tags that clients send.

Owns: which tags the model has, the language of a speaker that names none, and the normal form of
texts. Must not know: sessions, rooms.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from gateway.auth.permissions import Permissions
from gateway.core.base.model import Model
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.fields import Terms
from gateway.protocol.messages import Edit, Say, Set
from gateway.protocol.personal import personal_fields
from gateway.text import languages

Request = TypeVar("Request", Say, Edit, Set)
"""Requests with personal text."""

_BLANK = frozenset(("Cc", "Cs", "Zl", "Zp"))
_REORDERING = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF"))
"""Explicit embeddings and overrides of the direction (UAX #9), by which a name or a text can turn
what others see beside it around. Isolates and marks stay: they say no more than their own text."""

PAIRS = 4_096
"""Most language pairs that are checked for a list of the impossible ones: 64 by 64 languages."""

GLOSSARY_TAGS = 64
"""Most tags in the translations of a glossary. A frame has space for thousands, and the event loop
would take 15 us to normalise each."""

AUTO = "auto"
"""Tag of a speaker whose language is detected."""


Detect = Callable[[str, Sequence[str]], str | None]
"""Returns the language of a text, or None if it is not certain: one of some tags or, if there are
none, of the model's. The answer is another tag if the text is surely in none of the model's."""


def speakable(tags: str, model: Model, detect: Detect | None) -> str:
    """Return the normalised tags of languages that the model translates from, or `AUTO`. Raises
    `ClientFault` (``lang_unsupported``), with the languages there are.
    """
    if tags == AUTO:
        if detect is None:
            raise ClientFault(
                ErrorCode.LANG_UNSUPPORTED,
                "This gateway has no language detector, so 'auto' is not possible.",
                "Name the language: " + ", ".join(model.sources) + ".",
            )
        return AUTO
    langs = {tag: languages.normalise(tag) for tag in tags.split(",")}
    for tag, lang in langs.items():
        if languages.match(lang, model.sources) is None:
            raise unsupported([tag], model.sources)
    return ",".join(dict.fromkeys(langs.values()))


def usual(model: Model) -> str:
    """Return the language assumed of a speaker: English if the model reads it."""
    # There may be no language yet, because a model server says at its start what it has.
    return "en" if "en" in model.sources or not model.sources else model.sources[0]


class SpokenLanguage:
    """The language that a member speaks: its tag (``stated``), several with commas, or `AUTO`."""

    def __init__(self, stated: str, model: Model, detect: Detect | None) -> None:
        self.stated = stated
        self._model = model
        self._detect = detect
        self._before = usual(model)  # language of the text before

    def normalised(self, tag: str) -> str:
        """Return a language that can be spoken, normalised, or `AUTO`. Raises `ClientFault`."""
        return speakable(tag, self._model, self._detect)

    def of(self, text: str, tag: str | None = None) -> str:
        """Return the language of a text; of several that ``tag`` names, the likeliest. Raises
        `ClientFault` (``lang_unsupported``).
        """
        stated = self.stated if tag is None else self.normalised(tag)
        if stated != AUTO and "," not in stated:
            return stated
        among = [] if stated == AUTO else stated.split(",")
        lang = (self._detect(text, among) if self._detect is not None else None) or self._before
        if among and lang not in among:
            lang = among[0]
        # One that cannot be translated is not assumed of the next text.
        if languages.match(lang, self._model.sources) is not None:
            self._before = lang
        return lang


def clean(text: str) -> str:
    """Return a text in NFC, as `printable` writes it, without outer white space. Returns "" if no
    visible character is left.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    text = (text if text.isprintable() else printable(text)).strip()
    # Nearly every text begins with a letter or a digit, which is quicker to check.
    if text[:1].isalnum() or any(unicodedata.category(c)[0] not in "ZC" for c in text):
        return text
    return ""


def printable(text: str) -> str:
    """Replace control characters, line separators, lone surrogates and overrides of the direction
    by spaces.
    """
    return "".join(" " if _blank(c) else c for c in text)


def _blank(character: str) -> bool:
    category = unicodedata.category(character)
    return category in _BLANK or unicodedata.bidirectional(character) in _REORDERING


def said(text: str, most: int) -> str:
    """Return an utterance's text as `clean` does. Raises `ClientFault` (``too_long`` beyond
    ``most`` characters, ``empty_text``).
    """
    if len(text) <= most:
        text = clean(text)  # which may make it longer
    if len(text) > most:
        raise ClientFault(
            ErrorCode.TOO_LONG,
            f"The text has {len(text)} characters; {most} are allowed.",
            "Say it in several utterances.",
        )
    if not text:
        raise ClientFault(ErrorCode.EMPTY_TEXT, "The text is empty.", "Say at least one word.")
    return text


def cleaned(message: Request, most: int) -> Request:
    """Return a request with its personal text as `clean` returns it, and without empty terms.

    Raises `ClientFault`: ``too_long`` for more than ``most`` characters of a text that has to be
    there, ``empty_text`` if nothing is left of it, ``bad_frame`` for another text that is too long
    in its normal form, ``lang_unsupported`` for a term's translation into no language, and
    ``too_many_targets`` for more than `GLOSSARY_TAGS` of them.
    """
    clean_texts: dict[str, object] = {}
    changed = False
    for name, empty in personal_fields(type(message)).items():
        value = getattr(message, name)
        if isinstance(value, str) and empty is not None:
            clean_texts[name] = said(value, most)
        elif value is not None:
            clean_texts[name] = clean(value) if isinstance(value, str) else _glossary(value)
            changed = changed or clean_texts[name] != value
    message = replace(message, **clean_texts)
    if not changed:
        return message
    # The normal form of some letters, U+0958 (क़) among them, has two characters. Another gateway
    # would refuse to read a message with it.
    try:
        return msgspec.convert(msgspec.to_builtins(message), type(message))
    except msgspec.ValidationError as exc:
        raise ClientFault(ErrorCode.BAD_FRAME, f"{exc}, in Unicode's normal form NFC.") from None


def _glossary(terms: Terms) -> dict[str, str | dict[str, str]]:
    """Return a glossary with its texts cleaned and its tags normalised. Raises `ClientFault`."""
    tags = {tag for by_tag in terms.values() if not isinstance(by_tag, str) for tag in by_tag}
    if len(tags) > GLOSSARY_TAGS:
        raise ClientFault(
            ErrorCode.TOO_MANY_TARGETS,
            f"The glossary names {len(tags)} languages; {GLOSSARY_TAGS} are allowed.",
        )
    known = {tag: languages.normalise(tag) for tag in tags}
    glossary: dict[str, str | dict[str, str]] = {}
    for term, translation in terms.items():
        text: str | dict[str, str]
        if isinstance(translation, str):
            text = clean(translation)
        else:
            by_tag = ((known[tag], clean(own)) for tag, own in translation.items())
            text = {tag: own for tag, own in by_tag if own}
        if text and (cleaned := clean(term)):
            glossary[cleaned] = text
    return glossary


def named(tags: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the tags normalised, each once, and as they are if they are none: those match nothing.
    Raises `ClientFault` (``too_many_targets``) if there are more than ``most``.
    """
    _check_number(tags, most, "name")
    return tuple(dict.fromkeys(_normalised(tag) or tag for tag in tags))


def _check_number(tags: Sequence[str], most: int, verb: str) -> None:
    if len(tags) > most:
        raise ClientFault(
            ErrorCode.TOO_MANY_TARGETS, f"{len(tags)} languages; one socket may {verb} {most}."
        )


def _normalised(tag: str) -> str | None:
    try:
        return languages.normalise(tag)
    except ClientFault:
        return None


def readable(
    tags: Sequence[str], model: Model, most: int, permissions: Permissions
) -> tuple[tuple[str, ...], ClientFault | None]:
    """Return the tags that can be read, normalised, and the fault of asking for the others.

    A language that the model only reads can be read as it was spoken. Raises `ClientFault`
    (``too_many_targets``) if there are more than ``most``.
    """
    _check_number(tags, most, "read")
    known: dict[str, None] = {}
    unknown = []
    denied = None
    for asked in tags:
        tag = _normalised(asked)
        there = (model.targets, model.sources)
        if tag is None or not any(languages.match(tag, langs) for langs in there):
            unknown.append(asked)
            continue
        try:
            permissions.check_languages([tag])
        except ClientFault as fault:
            denied = fault.with_traceback(None)  # it refers to this frame
        else:
            known[tag] = None
    return tuple(known), unsupported(unknown, model.targets) if unknown else denied


@lru_cache(maxsize=4)  # of the few models that a process has at a time; each socket asks
def impossible(model: Model) -> dict[str, tuple[str, ...]]:
    """Return, by source, the targets into which a model cannot translate, not even in two steps.
    Returns nothing for a model of more than `PAIRS` pairs: the list would be too long to send.
    """
    if len(model.sources) * len(model.targets) > PAIRS:
        return {}
    lacking = {
        source: tuple(
            target
            for target in model.targets
            if not languages.same(source, target) and not model.supports(source, target)
        )
        for source in model.sources
    }
    return {source: targets for source, targets in lacking.items() if targets}


def unsupported(tags: list[str], there: tuple[str, ...]) -> ClientFault:
    """Return the fault of asking for languages other than ``there``."""
    some = ", ".join(repr(tag[:32]) for tag in tags[:5])
    return ClientFault(
        ErrorCode.LANG_UNSUPPORTED,
        f"This engine does not have {some}.",
        "It has: " + ", ".join(there) + ".",
    )
