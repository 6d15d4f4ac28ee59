"""Changes that a mutation run counts."""

from __future__ import annotations

import pytest

from scripts.mutation import difference, words_only

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
