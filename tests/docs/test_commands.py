"""The commands on the pages are understood by the command line."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from gateway.cli import main
from tests.docs.pages import PAGES, name

COMMAND = re.compile(r"^(?: {4,}|\.venv/bin/)?(?:[A-Z_]+=\S+ )?(?:\.venv/bin/)?gateway ([a-z].*)$")


def commands(page: Path) -> list[str]:
    """Return the arguments of every `gateway` command in a block of code of a page."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    fenced = "\n".join(re.findall(r"^ *```(?:bash)?\n(.*?)^ *```$", text, re.M | re.S))
    indented = "\n".join(re.findall(r"^ {4,}.*$", text, re.M))
    lines = (*fenced.splitlines(), *indented.splitlines())
    return [found[1] for line in lines if (found := COMMAND.match(line))]


COMMANDS = sorted({(name(page), command) for page in PAGES for command in commands(page)})


def test_the_pages_have_commands() -> None:
    assert len(COMMANDS) > 30


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_of_a_page_is_understood(page: str, command: str) -> None:
    arguments = shlex.split(command, comments=True)
    assert isinstance(main._parser().parse_args(arguments), argparse.Namespace)
