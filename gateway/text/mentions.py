"""Languages that an instruction to a translator names.

Owns: finding names of languages in a sentence, and which of them is the source. Must not know: who
gives the instruction, which languages are offered.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from gateway.text import languages, units

MOST = 4_000
"""Characters of an instruction that are searched. Its languages stand near its beginning."""


class Direction(NamedTuple):
    """Canonical tags of a source and a target; None if an instruction leaves one open."""

    source: str | None
    target: str | None


def direction(instruction: str) -> Direction:
    """Return the source and the target that an instruction names.

    A name behind "from" is the source, and so is one with "to" or "into" and another name behind
    it. The target is known if exactly one other language is named, however often.

    >>> direction("Translate the text from English into German.")
    Direction(source='en', target='de')
    >>> direction("Answer in German or French.")
    Direction(source=None, target=None)
    """
    sources, targets = set[str](), set[str]()
    tags, pattern = _names()
    for match in pattern.finditer(instruction[:MOST]):
        # `re` ignores the case of a few letters that `casefold` keeps apart, such as a dotted I.
        tag = tags.get(match["name"].casefold())
        if tag is not None:
            is_source = match["from"] is not None or match["to"] is not None
            # A set: an instruction often names its target twice.
            (sources if is_source else targets).add(tag)
    return Direction(_only(sources), _only(targets - sources))


def _only(tags: set[str]) -> str | None:
    return next(iter(tags)) if len(tags) == 1 else None


@cache
def _names() -> tuple[dict[str, str], re.Pattern[str]]:
    """Return the tag of each name in small letters, and a pattern that finds the names."""
    # Without a script, people mean the one of most texts.
    tags = {"chinese": "zh"}
    patterns = {"chinese": r"(?<!\w)Chinese(?!\w)"}
    for tag in languages.named_tags():
        for name in (languages.name(tag), languages.endonym(tag)):
            key = name.casefold()
            tags.setdefault(key, tag)
            # In scripts without spaces a name has letters beside it that are no part of it.
            apart = units.spaced(tag) or name.isascii()
            before, after = (r"(?<!\w)", r"(?!\w)") if apart else ("", "")
            patterns[key] = before + re.escape(name) + after
    # The longest first: "Simplified Chinese" has another name in it.
    name = "|".join(patterns[key] for key in sorted(patterns, key=len, reverse=True))
    between = r"(?:[\s-]+(?:to|into)[\s-]+|\s*(?:->|→)\s*)"
    pattern = rf"(?P<from>\bfrom\s+)?(?P<name>{name})(?P<to>(?={between}(?:{name})))?"
    return tags, re.compile(pattern, re.IGNORECASE)
