"""Inputs that once broke a promise of `fuzz` keep it; so do some that nobody chose."""

from __future__ import annotations

import importlib
from pathlib import Path
from random import Random

import pytest

FOUND = Path(__file__).parents[2] / "fuzz" / "found"
TARGETS = ("frames", "stream", "world")


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_that_once_broke_a_promise_keep_it(target: str) -> None:
    one = importlib.import_module(f"fuzz.{target}").one
    for path in sorted((FOUND / target).glob("*")):
        one(path.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_random_bytes_break_no_promise(target: str) -> None:
    one = importlib.import_module(f"fuzz.{target}").one
    for seed in range(50):
        chance = Random(seed)
        one(chance.randbytes(chance.randint(0, 400)))
