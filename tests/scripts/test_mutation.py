"""Changes that a mutation run counts, and the list of equivalent ones."""

from __future__ import annotations

import re

import pytest

from scripts.mutation import AREAS, EQUIVALENT, Change, difference, equivalent, words_only

FAULT = 'def f(n):\n    if n:\n        raise Fault(Code.BUSY, f"{n} are open.", "Wait for them.")'
OTHER = 'def f(text):\n    outbox.close(4008, "The room has forgotten it.")\n    return "en"'
HINT = 'def f():\n    hint = "Read this first."\n    return hint'
LOGGED = 'def f(a):\n    assert a is not None, "never"\n    log.debug("%s -> %s", a, a.state)'


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        (FAULT, '"Wait for them."', '"XXWait for them.XX"'),
        (FAULT, '"Wait for them."', "None"),
        (FAULT, ', "Wait for them."', ""),
        (FAULT, 'f"{n} are open."', "None"),
        (OTHER, '"The room has forgotten it."', '"the room has forgotten it."'),
        (OTHER, ', "The room has forgotten it."', ""),
        (HINT, "Read this first.", "READ THIS FIRST."),
        (LOGGED, '"never"', '"NEVER"'),
        (LOGGED, "a.state", "None"),
    ],
)
def test_a_change_of_the_words_of_an_error_a_close_or_a_log_line_does_not_count(
    code: str, old: str, new: str
) -> None:
    assert old in code and words_only(code, code.replace(old, new))


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        (FAULT, "Code.BUSY", "None"),
        (FAULT, "Code.BUSY, ", ""),
        (FAULT, "if n", "if not n"),
        (OTHER, "4008", "4009"),
        (OTHER, '"en"', '"XXenXX"'),
        (HINT, '"Read this first."', "None"),
        (LOGGED, "is not None", "is None"),
    ],
)
def test_every_other_change_counts(code: str, old: str, new: str) -> None:
    assert old in code and not words_only(code, code.replace(old, new))


def test_a_change_is_the_lines_that_differ() -> None:
    assert difference("a\n  b < c\nd", "a\n  b <= c\nd") == ("b < c", "b <= c")
    assert difference("f(\n  a,\n  b,\n)", "f(\n  b,\n)") == ("a,", "")


def test_an_equivalent_change_is_listed_as_it_is_printed_with_a_reason_below() -> None:
    change = Change("gateway/core/a.py: A.b", "x = 1\ny = 2", "x = 2")
    assert equivalent(f"# A comment.\n\n{change}\n    Nobody reads it.\n") == {change}
    with pytest.raises(ValueError, match="no reason"):
        equivalent(str(change))


def test_the_list_of_equivalent_changes_can_be_read_and_names_folders_that_are_run() -> None:
    for change in equivalent(EQUIVALENT.read_text()):
        assert re.fullmatch(rf"gateway/({'|'.join(AREAS)})/\w+\.py: [\w.]+", change.place)
