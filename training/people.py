"""Names of people and places of many cultures, put together from parts.

Owns: which parts make a name, and its transcription. Must not know: slots, sentences.

``parts.tsv`` has a culture, ``given`` or ``family``, first parts and second parts: each first with
each second is a name. With the names of ``names.tsv`` and ``surnames.tsv`` there are some 6,000
given names and surnames, and far more than 10,000 full ones. ``eastern.tsv`` has names of China,
Japan and Korea in the signs of their own, or with their sounds where Japanese writes these.
"""

from __future__ import annotations

import random
from pathlib import Path

from training.figures import Values, same
from training.transcribe import hanzi, katakana

LATIN = frozenset(
    "dutch german french irish english welsh scandinavian icelandic vietnamese greenland".split()
)
"""Cultures whose spelling does not tell the sound: other scripts keep their Latin letters."""

KEPT_LATIN = 0.35
"""Share of the other names that Japanese and Chinese keep in Latin letters, as messages do."""


def _parts() -> dict[str, list[tuple[str, list[str], list[str]]]]:
    found: dict[str, list[tuple[str, list[str], list[str]]]] = {"given": [], "family": []}
    for line in (Path(__file__).parent / "parts.tsv").read_text("utf-8").splitlines():
        culture, kind, first, second = line.split("\t")
        found[kind].append((culture, first.split(), second.split()))
    return found


def _eastern() -> dict[tuple[str, str], list[tuple[str, str, str]]]:
    found: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for line in (Path(__file__).parent / "eastern.tsv").read_text("utf-8").splitlines():
        culture, kind, latin, japanese, chinese = line.split("\t")
        found.setdefault((culture, kind), []).append((latin, japanese, chinese))
    return found


PARTS, EASTERN = _parts(), _eastern()


def composed(kind: str, draw: random.Random) -> Values:
    """Return a name that is put together.

    :param kind: ``given`` or ``family``
    """
    culture, first, second = draw.choice(PARTS[kind])
    start, end = draw.choice(first), draw.choice(second)
    if not start.endswith(("_", "-", "'", "c")):
        end = end.lower()
    latin = (start + end).replace("_", " ")
    if culture in LATIN or draw.random() < KEPT_LATIN:
        return same(latin)
    return (latin, latin, latin, latin, katakana(latin), hanzi(latin))


def eastern(draw: random.Random) -> Values:
    """Return the full name of somebody from China, Japan or Korea, as each language writes it."""
    culture = draw.choice(("chinese", "japanese", "korean"))
    latin, kana, signs = draw.choice(EASTERN[culture, "family"])
    parts = 1 if culture == "japanese" else 2
    given = draw.sample(EASTERN[culture, "given"], parts)
    joint = "-" if culture == "korean" else ""
    name = joint.join(part[0] for part in given).capitalize()
    west = f"{name} {latin}" if culture != "chinese" or draw.random() < 0.5 else f"{latin} {name}"
    dot = "・" if culture == "korean" else ""
    east, china = (
        start + "".join(p[n] for p in given) for n, start in ((1, kana + dot), (2, signs))
    )
    return (west, west, west, west, east, china)


def full(given: Values, family: Values) -> Values:
    """Return a given name and a surname as one name."""
    west = [f"{a} {b}" for a, b in zip(given[:4], family[:4], strict=True)]
    east = [
        f"{a} {b}" if a.isascii() and b.isascii() else a + dot + b
        for a, b, dot in zip(given[4:], family[4:], "・·", strict=True)
    ]
    return (*west, *east)  # type: ignore[return-value]
