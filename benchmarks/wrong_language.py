"""Counts of the guards against outputs in another language, on reference translations.

    python -m benchmarks.wrong_language FOLDER

FOLDER has files such as ``everyday.en-de.tsv``, of which each line has a text, a tab and its
translation. Prints how many references are refused as they are, in both directions, and how many
references of another language, and sources, are recognised in their place.

Owns: the pairs and the counts. Must not know: how a language is detected.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

from gateway.engines.base.language_detection import Detector
from gateway.engines.guards.complete_output import is_copy, is_other_language

WORDS = ("1 to 3", "4 to 7", "8 to 11", "12 or more")
UNSPACED = ("ja", "zh")


def pairs(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """Return (language, language, text, translation) of all lines."""
    for path in sorted(folder.glob("*.tsv")):
        source, target = path.stem.rpartition(".")[2].split("-")
        for line in path.read_text(encoding="utf-8").splitlines():
            text, translation, *_ = [*line.split("\t"), ""]
            if text and translation:
                yield source, target, text, translation


def beginning(text: str) -> str:
    """Return two thirds of a text, up to the end of a word if it has several."""
    words = text.split(" ")
    return " ".join(words[: len(words) * 2 // 3]) if len(words) > 2 else text[: len(text) * 2 // 3]


class Judge:
    """The guards that recognise an output in another language."""

    def __init__(self) -> None:
        self._detector = Detector(())

    def __call__(self, source: str, target: str, text: str, output: str) -> bool:
        return is_copy(text, output, source, target) or is_other_language(
            text, output, target, self._detector.instead
        )


def main(argv: Sequence[str]) -> None:
    """Print the counts."""
    refused, counts = Judge(), Counter[str]()
    versions: dict[str, dict[str, str]] = defaultdict(dict)
    for source, target, text, other in pairs(Path(argv[0])):
        versions[text] |= {source: text, target: other}
        for order in ((source, target, text, other), (target, source, other, text)):
            counts["references"] += 1
            counts["refused"] += refused(*order)
            counts["partial, refused"] += refused(*order[:2], *map(beginning, order[2:]))
    print(dict(counts))
    found, all_of = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for texts in versions.values():
        for source, target in permutations(texts, 2):
            for lang in set(texts) - {target, *UNSPACED}:
                kind = "the source itself" if lang == source else "another language"
                words = WORDS[min(len(texts[lang].split()) // 4, 3)]
                all_of[kind, words] += 1
                found[kind, words] += refused(source, target, texts[source], texts[lang])
    print("| output | " + " | ".join(f"{words} words" for words in WORDS) + " |")
    for kind in ("another language", "the source itself"):
        row = [f"{found[kind, n]:,} of {all_of[kind, n]:,}" for n in WORDS]
        print(f"| {kind} | {' | '.join(row)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
