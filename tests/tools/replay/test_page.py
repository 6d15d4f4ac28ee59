"""The reference page of replay files and figures says the same as the report."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from random import Random

import pytest

from caption_tools.replay.meeting import script
from caption_tools.replay.report import HEADS, ReplayRow
from caption_tools.speech import recogniser
from gateway.cli import main

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "replay.md").read_text("utf-8")


def test_every_figure_and_column_is_explained() -> None:
    rows = re.findall(r"^\|([^|]*)\|([^|]*)\|", PAGE, re.MULTILINE)
    figures = {name for _, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert set(ReplayRow.__struct_fields__) - {"lang", "view"} <= figures
    columns = {name for names, _ in rows for name in names.strip().split(", ")}
    assert {head.removesuffix(" p50") for head in HEADS} - {"lang", "view", "p95"} <= columns


def test_every_field_of_a_line_is_explained() -> None:
    explained = set(re.findall(r"`(\w+)`", PAGE[PAGE.index("## Files") :]))
    assert set(script._ScriptLine.__struct_fields__) <= explained


def test_the_examples_can_be_played() -> None:
    example = re.search(r"```\n(\{.*?)```", PAGE, re.DOTALL)
    assert example is not None
    assert [one.lang for one in script.parse(example[1], Random(0))] == ["en", "en", "de"]


@pytest.mark.parametrize("line", re.findall(r"^    gateway ((?:replay|record) .+)$", PAGE, re.M))
def test_the_commands_of_the_page_are_valid(line: str) -> None:
    assert isinstance(main._parser().parse_args(line.split()), argparse.Namespace)


def test_every_flag_is_explained() -> None:
    parser = main._parser()
    (commands,) = (
        action.choices
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    flags = {flag for action in commands["replay"]._actions for flag in action.option_strings} - {
        "-h",
        "--help",
        "--url",
        "--offline",
    }
    assert flags <= set(re.findall(r"--[\w-]+", PAGE))


def test_the_numbers_of_the_page_are_those_of_the_recogniser() -> None:
    for number in (
        f"{recogniser.WORDS_A_MINUTE:g} words a minute",
        f"{recogniser.CHARACTERS_A_SECOND:g} characters a second",
        f"every {recogniser.UPDATE_S:g} s",
        f"{recogniser.PAUSE_S:g} s after",
        f"In {100 * recogniser.SPOILT:.0f} of 100",
    ):
        assert number in PAGE
    assert ", ".join(script.USUAL) in PAGE
