"""Parallel sentences from disk: read, cleaned, filtered, weighted.

Owns: which corpora count how much and which lines are left out. Must not know: tokens, tensors,
how an example is made of a pair.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.figures import LANGUAGES
from training.noise import SPACELESS
from training.slots import SLOT, SLOTS

WEIGHTS: dict[str, float] = {
    "own": 2.5,
    "tatoeba": 1.0,
    "bcontrast": 3.0,
    "ami_dev": 4.0,
    "xrisawoz": 5.0,
    "convlab_human": 2.0,
    "fisher_callhome_asr": 0.5,
    "gnome_help": 0.7,
    "opensource_guide": 1.5,
    "react_docs": 0.4,
    "python_docs": 0.3,
    "pud": 4.0,
    "tico19": 2.0,
    "xquad": 2.0,
    "element_ui": 0.8,
    "mattermost_ui": 1.0,
    "indico_ui": 0.6,
    "wiktionary": 0.3,
}
"""Times that a sentence of each corpus is drawn, where one of everyday speech is drawn once.

Talk is drawn more often than its share of the sentences, and manuals less: the model is made for
talk. A corpus that is not named here counts as everyday speech.
"""

SCARCE: dict[str, float] = {"es": 1.3, "ja": 1.1, "zh": 1.4}
"""Factor by which pairs of a language are drawn more often if it has fewer of them than German."""

LONGEST = 400
"""Characters of a sentence, on either side."""

LOOPS = (2, 3, 4, 6)
"""Lengths, in tokens, of what a translation repeats when it does not end."""

RATIO = (0.35, 2.9)
"""Characters of the other side for one of English; Japanese and Chinese are counted threefold."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence in English and in one other language."""

    corpus: str
    language: str
    english: str
    other: str
    way: str = "both"
    """``into`` English only (the other side is disfluent speech, say), ``from`` it, or ``both``."""


def corpora(root: Path) -> Iterator[Pair]:
    """Yield every usable pair below ``root`` (``<corpus>/en-<language>.tsv``), each once."""
    seen: set[tuple[str, str, str]] = set()
    rude = Blocked()
    for path in sorted(root.glob("*/*.tsv")):
        language = path.stem[-2:]
        for line in path.read_text("utf-8").split("\n"):
            columns = line.split("\t")
            if len(columns) < 2:
                continue
            pair = Pair(
                path.parent.name,
                language,
                clean(columns[0]),
                clean(columns[1]),
                way="into" if "2en_only" in path.stem else "both",
            )
            key = (language, pair.english, pair.other)
            if (
                key not in seen
                and usable(pair)
                and not (rude(pair.english, "en") or rude(pair.other, language))
            ):
                seen.add(key)
                yield pair


def lone(path: Path) -> Iterator[str]:
    """Yield every usable line of a file in the one language that it is named for, each once."""
    rude = Blocked()
    seen: set[str] = set()
    for line in path.read_text("utf-8").split("\n"):
        text = clean(line)
        if text and len(text) <= LONGEST and text not in seen and not rude(text, path.stem):
            seen.add(text)
            yield text


def own(root: Path) -> Iterator[tuple[str, ...]]:
    """Return the project's own sentences, in six languages each, with their slots open."""
    rude = Blocked()
    for path in sorted(root.glob("*.tsv")):
        for line in path.read_text("utf-8").splitlines():
            columns = tuple(clean(column) for column in line.split("\t"))
            slots = [sorted(SLOT.findall(column)) for column in columns]
            if (
                len(columns) == len(LANGUAGES)
                and all(columns)
                and slots.count(slots[0]) == len(slots)
                and SLOTS.keys() >= set(slots[0])
                and not any(map(rude, columns, LANGUAGES))
            ):
                yield columns


_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060\ufeff]")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
MARKS = re.compile(r"≪[^≪≫]*≫|[≪≫]|<unk>|-\*-")
"""Marks of transcribers and recognisers: a false start in ≪ ≫, with its words, which the other side
lacks; a word that was not understood."""
_SPELT = re.compile(r"(?<!\w)(?:[A-Z]_)+(?=(?:s|ed)?\b)")
"""Letters that were said one by one: "T_V_", "D_V_D_s"."""


def clean(text: str) -> str:
    """Return a text in NFC with one kind of space, without control or invisible characters, and
    without marks.
    """
    text = MARKS.sub(" ", _UNSEEN.sub("", unicodedata.normalize("NFC", text)))
    text = _SPELT.sub(lambda spelt: spelt[0].replace("_", ""), text)
    return _BLANK.sub(" ", text).strip()


def usable(pair: Pair) -> bool:
    """Return whether both sides look like translations of each other."""
    english, other = pair.english, pair.other
    if not english or not other or max(len(english), len(other)) > LONGEST:
        return False
    if english == other and len(english.split()) > 3:
        return False
    size = len(other) * (3 if pair.language in SPACELESS else 1)
    return len(english) < 12 or RATIO[0] < size / len(english) < RATIO[1]


def looped(ids: Sequence[int]) -> bool:
    """Return whether a few tokens stand there three times in a row."""
    return any(
        ids[at : at + size] == ids[at + size : at + 2 * size] == ids[at + 2 * size : at + 3 * size]
        for size in LOOPS
        for at in range(len(ids) - 3 * size + 1)
    )


class Blocked:
    """The filter of profanity: whether a text holds a word of ``blocked.txt`` of its language."""

    def __init__(self) -> None:
        self._rude: dict[str, re.Pattern[str]] = {}
        text = (Path(__file__).parent / "blocked.txt").read_text("utf-8")
        for section in re.split(r"^\[", text, flags=re.MULTILINE)[1:]:
            language, *words = filter(None, section.splitlines())
            either = "|".join(re.escape(word).replace(r"\*", r"\w*") for word in words)
            language = language.rstrip("]")
            # Not within a word, nor in the second half of one: a "pique-nique", "パチンコ".
            start, end = {"ja": ("(?<![ァ-ヺー])", ""), "zh": ("", "")}.get(
                language, (r"(?<![\w-])", r"\b")
            )
            self._rude[language] = re.compile(f"{start}(?:{either}){end}", re.IGNORECASE)

    def __call__(self, text: str, language: str) -> bool:
        return self._rude[language].search(text) is not None


class Near:
    """Finds sentences that are too close to held-out ones: equal, or a Jaccard index of 0.7."""

    CLOSE = 0.7
    SHORT = 4
    """Utterances of fewer words, such as "Okay.", are everybody's."""

    def __init__(self, held: Iterable[str]) -> None:
        self._bags = [bag for text in held if len(bag := frozenset(_words(text))) >= self.SHORT]
        self._where: dict[str, list[int]] = defaultdict(list)
        for n, bag in enumerate(self._bags):
            for word in bag:
                self._where[word].append(n)

    def __call__(self, text: str) -> bool:
        bag = frozenset(_words(text))
        if len(bag) < self.SHORT:
            return False
        # A sentence this close lacks three tenths of the words at most: of any more it has one.
        # The rarest are quickest to look up.
        rare = sorted(bag, key=lambda word: len(self._where.get(word, ())))
        some = rare[: math.ceil(len(bag) * (1 - self.CLOSE)) + 1]
        near = {n for word in some for n in self._where.get(word, ())}
        return any(len(bag & self._bags[n]) / len(bag | self._bags[n]) >= self.CLOSE for n in near)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
