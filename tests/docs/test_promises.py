"""Every sentence of the guides that promises an absence is shown by a test.

The pages are `docs/design/security.md`, the how-to guides and the README. A sentence with one of
the words "no", "never", "nothing", "nobody" or "at most" has an entry in `promises.toml` with its
tests. A sentence that no test can show is deleted, or says something else in other words.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, name

PAGES = [DOCS / "design" / "security.md", *(DOCS / "how-to").glob("*.md"), ROOT / "README.md"]
ABSENCE = re.compile(r"\b(?:no|never|nothing|nobody|at most)\b", re.IGNORECASE)

PROMISES: dict[str, dict[str, list[str]]] = tomllib.loads(
    (ROOT / "tests" / "docs" / "promises.toml").read_text(encoding="utf-8")
)
TESTS = sorted({test for page in PROMISES.values() for tests in page.values() for test in tests})


def promises(page: Path) -> Iterator[str]:
    """Yield the sentences of a page that name an absence, without blocks of code."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:- |\d+\. |\|))", text):
        plain = " ".join(block.replace("**", "").split())
        for sentence in re.split(r"(?<=[.:!?])\s+(?=\W*[A-Z`])|\|", plain):
            # A cell "no" of a table answers its own question.
            said = sentence.strip(" -")
            if ABSENCE.search(re.sub(r"`[^`]*`", "", said)) and " " in said:
                yield said


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_sentence_that_promises_an_absence_is_shown_by_a_test(page: Path) -> None:
    shown, found = PROMISES.get(name(page), {}), list(promises(page))
    for sentence in found:
        assert any(map(sentence.startswith, shown)), f"{name(page)}: no test shows {sentence!r}"
    for beginning in shown:
        assert any(one.startswith(beginning) for one in found), f"no longer said: {beginning!r}"


@pytest.mark.parametrize("test", TESTS)
def test_every_test_that_shows_a_promise_exists(test: str) -> None:
    file, _, title = test.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert (f"def {title}(" if file.endswith(".py") else title) in text
