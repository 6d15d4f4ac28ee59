"""Frequent words that the corpora lack, as lists for the people who write sentences.

    python -m training.coverage DATA [--top 15000] [--least 20] [--words DIR]

A translation is wrong five times as often where its rarest word was seen fewer than five times in
training as where all were seen fifty times. This program counts the most frequent forms of each
language (package wordfreq) over ``DATA/train`` and the project's own sentences, and says how many
were seen too rarely. With ``--words`` it writes them to ``DIR/<language>.tsv``, the most frequent
first: rank, form, times seen. Sentences that are written for these words go into ``corpus/``.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from training import pairs, slots
from training.figures import LANGUAGES

Tokenizer = Callable[[str, str], list[str]]
"""Returns the forms of a text in a language, in lower case."""


class RareForm(NamedTuple):
    """A frequent form of a language that the corpora have seldom."""

    rank: int
    """Place among the most frequent forms, from 1."""
    form: str
    seen: int
    """Sentences with the form."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--top", type=int, default=15_000, help="most frequent forms to look for")
    parser.add_argument("--least", type=int, default=20, help="times that each should be seen")
    parser.add_argument("--words", type=Path, help="folder for the lists of rare forms")
    options = parser.parse_args()

    from wordfreq import top_n_list
    from wordfreq.tokens import tokenize

    own = pairs.own(Path(__file__).parent / "corpus")
    seen = count(texts(pairs.corpora(options.data / "train"), own), tokenize)
    for language in LANGUAGES:
        forms = top_n_list(language, options.top)
        rare = rare_forms(forms, seen[language], options.least)
        never = sum(not one.seen for one in rare)
        print(
            f"{language}: {len(rare):,} of {len(forms):,} forms are seen fewer than"
            f" {options.least} times, {never:,} never"
        )
        if options.words is not None:
            options.words.mkdir(parents=True, exist_ok=True)
            lines = "".join(f"{one.rank}\t{one.form}\t{one.seen}\n" for one in rare)
            (options.words / f"{language}.tsv").write_text(lines, "utf-8")


def texts(corpora: Iterable[pairs.Pair], own: Iterable[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield language and text of each sentence of the corpora and of the project's own."""
    english = set[str]()
    for pair in corpora:
        if pair.english not in english:  # which many corpora have with several languages
            english.add(pair.english)
            yield "en", pair.english
        yield pair.language, pair.other
    for columns in own:
        yield from zip(LANGUAGES, (slots.SLOT.sub(" ", text) for text in columns), strict=True)


def count(sentences: Iterable[tuple[str, str]], tokenize: Tokenizer) -> dict[str, Counter[str]]:
    """Return for each language the number of sentences that have each form."""
    seen = {language: Counter[str]() for language in LANGUAGES}
    for language, text in sentences:
        seen[language].update(set(tokenize(text, language)))
    return seen


def rare_forms(forms: Sequence[str], seen: Counter[str], least: int) -> list[RareForm]:
    """Return the forms that are seen fewer than ``least`` times, the most frequent first.

    Numbers and single Latin letters are left out, because slots and spelling cover them.
    """
    return [
        RareForm(rank, form, seen[form])
        for rank, form in enumerate(forms, 1)
        if seen[form] < least
        and not any(char.isdigit() for char in form)
        and not (len(form) == 1 and form.isascii())
    ]


if __name__ == "__main__":
    main()
