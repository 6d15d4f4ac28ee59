"""Values in assertions, in the form that mypy can follow."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def current(value: T) -> T:
    """Return ``value``.

    After ``assert engine.health is Health.DEAD`` mypy takes the attribute to be dead in the rest of
    the test, whatever is called in between, and does not check what follows an assertion that it is
    ready again. It draws no such conclusion from ``assert current(engine.health) is Health.DEAD``.
    """
    return value


def near(value: float, *, rel: float | None = None, abs: float | None = None) -> Any:
    """Return `pytest.approx` of a number, to stand for that number inside a tuple or a list."""
    return pytest.approx(value, rel=rel, abs=abs)
