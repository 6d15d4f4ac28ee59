"""Language tags: canonical form, matching with a model's languages, and names.

Owns: BCP 47 (RFC 5646) parsing and matching, and the names of languages. Must not know: models,
sessions, or which languages are offered; callers pass them in.

`normalise` returns the canonical form of a tag (``pt_BR`` -> ``pt-BR``) and refuses what is not a
language. `match` finds the language of a model that serves a tag (``de-AT`` -> ``de``), if there is
one. `same` tells whether a reader of one tag can read text of another without a translation.

`match` and `same` follow one rule: language and script must agree, the region need not. So ``zh``,
``zh-CN`` and ``zh-Hans`` are the same (Simplified Chinese), and ``zh-Hant``, ``zh-TW`` and
``zh-HK`` are the same (Traditional Chinese). A reader of ``pt-PT`` needs no translation of
``pt-BR``, but a reader of ``sr-Latn`` needs one of ``sr`` (Cyrillic). A tag without a script has
the most likely one (CLDR, from langcodes).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources

from langcodes import Language, standardize_tag, tag_distance

from gateway.errors import ClientFault, ErrorCode

MAX_TAG = 35
"""Maximum length of a tag in characters. RFC 5646 section 4.4.1: no sensible tag is longer."""

MAX_TAGS = 256
"""Maximum number of tags in a list of a client: more than any model has. A request has space for
ten thousand, and the event loop would take 10 us to normalise each."""

_CACHE = 4096
"""Entries of each cache. Normalising a tag takes 10 us, a cache hit 0.1 us."""

# ISO 639-3 codes of standard varieties that are usually written with the two letters of their
# macrolanguage. FLORES and NLLB use them. `yue`, `nan`, `arz` and others are separate languages.
_STANDARD = {
    "als": "sq", "arb": "ar", "azj": "az", "cmn": "zh", "ekk": "et", "khk": "mn", "lvs": "lv",
    "npi": "ne", "ory": "or", "pes": "fa", "plt": "mg", "swh": "sw", "uzn": "uz", "ydd": "yi",
    "zsm": "ms",
}  # fmt: skip

# Codes in the registry that are no language that could be translated (RFC 5646 section 4.1).
_NOT_A_LANGUAGE = frozenset({"und", "mul", "mis", "zxx"})

# English name, and the name in the language itself.
_NAMES: dict[str, list[str]] = tomllib.loads(
    resources.files("gateway.text").joinpath("languages.toml").read_text("utf-8")
)
NAMED = tuple(_NAMES)
"""Canonical tags of all languages with a name."""

# Tags by name: people write `to=german` and `to=deutsch`.
_BY_NAME = {name.casefold(): tag for tag, names in _NAMES.items() for name in names}


def normalise(tag: str) -> str:
    """Return ``tag`` as canonical BCP 47, reduced to language, script and region.

    Case, underscores, retired codes (``iw``), three-letter codes (``deu``) and default scripts
    (``de-Latn``) are corrected. Variants, extensions and private subtags are dropped, because
    translation has no use for them. Idempotent.

    Raises `ClientFault` (``lang_unsupported``) if it is not a language.
    """
    # Before the cache, so that no client fills it with long strings.
    tag = tag.strip()
    if not tag or len(tag) > MAX_TAG:
        raise _nonsense(tag)
    return _normalise(tag)


def listed(tags: str) -> tuple[str, ...]:
    """Return the canonical tags of languages that are separated by commas, each once. Raises
    `ClientFault`: ``lang_unsupported``, and ``too_many_targets`` beyond `MAX_TAGS`.
    """
    asked = [tag for tag in tags.split(",") if tag.strip()]
    if len(asked) > MAX_TAGS:
        what = f"{len(asked)} languages; {MAX_TAGS} may be named."
        raise ClientFault(ErrorCode.TOO_MANY_TARGETS, what)
    return tuple(dict.fromkeys(map(normalise, asked)))


@lru_cache(maxsize=_CACHE)
def _normalise(tag: str) -> str:
    try:
        parsed = Language.get(standardize_tag(tag))
    except ValueError as exc:
        raise _nonsense(tag) from exc
    language = parsed.language or "und"
    language = _STANDARD.get(language, language)
    # A private `x-foo` is returned as a language of that name. Existing extended languages have
    # been replaced (`zh-yue` -> `yue`), so one that is left is an error, like `USA` in `en-USA`.
    private = not language.isalpha()
    if private or parsed.extlangs or language in _NOT_A_LANGUAGE or not parsed.is_valid():
        raise _nonsense(tag)
    plain = Language.make(language=language, script=parsed.script, territory=parsed.territory)
    return standardize_tag(plain.to_tag())


def _nonsense(tag: str) -> ClientFault:
    what = f"`{tag[:MAX_TAG]}` is not a language tag." if tag else "The language tag is empty."
    hint = "Use a BCP 47 tag, such as `en`, `pt-BR` or `zh-Hant`."
    if of_name := named(tag):
        hint = f"The tag of this language is `{of_name}`."
    return ClientFault(ErrorCode.LANG_UNSUPPORTED, what, hint)


def match(tag: str, supported: Sequence[str]) -> str | None:
    """Return the language of ``supported`` that serves a reader or speaker of ``tag``, or None.

    If there are several, the closest region wins (CLDR distance), then the first. All tags are
    canonical.
    """
    return _match(tag, tuple(supported))


@lru_cache(maxsize=_CACHE)
def _match(tag: str, supported: tuple[str, ...]) -> str | None:
    # The exact tag wins even if another one of the same language is listed first.
    if tag in supported:
        return tag
    return next(iter(serving(tag, supported)), None)


def serving(tag: str, supported: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of ``supported`` that serve a reader of ``tag``, the closest region first."""
    able = [candidate for candidate in supported if same(candidate, tag)]
    return tuple(
        sorted(able, key=lambda candidate: (candidate != tag, tag_distance(tag, candidate)))
    )


@lru_cache(maxsize=_CACHE)
def same(a: str, b: str) -> bool:
    """Tell whether a reader of ``a`` can read ``b`` without a translation."""
    return _written(a) == _written(b)


@lru_cache(maxsize=_CACHE)
def _written(tag: str) -> tuple[str | None, str | None]:
    """Return language and likely script. Norwegian without a variety (``no``) is Bokmål."""
    # CLDR adds the likely script: `zh-TW` becomes `zh-Hant-TW`, `sr` becomes `sr-Cyrl-RS`.
    full = Language.get(tag).maximize()
    return "nb" if full.language == "no" else full.language, full.script


def script(tag: str) -> str:
    """Return the ISO 15924 code of the script that ``tag`` is written in: ``Latn``, ``Jpan``."""
    return _written(tag)[1] or "Zyyy"


def with_region(tag: str) -> str:
    """Return language and likeliest region, for services that know no scripts.

    >>> with_region("zh-Hant"), with_region("de-AT")
    ('zh-TW', 'de-AT')
    """
    full = Language.get(tag).maximize()
    return Language.make(language=full.language, territory=full.territory).to_tag()


def name(tag: str) -> str:
    """Return the English name, for prompts and menus; the tag itself if there is none."""
    known = _match(tag, NAMED)
    return _NAMES[known][0] if known else tag


def named(name: str) -> str | None:
    """Return the tag of the language of this English or native name, or None."""
    return _BY_NAME.get(name.strip().casefold())


def endonym(tag: str) -> str:
    """Return the name of the language in that language; the tag itself if there is none."""
    known = _match(tag, NAMED)
    return _NAMES[known][1] if known else tag
