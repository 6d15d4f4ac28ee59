"""The worked examples of `docs/figures/capacity.md` are the output of the command."""

from __future__ import annotations

import re
import shlex

import pytest

from gateway.cli.main import main
from tests.docs.pages import DOCS

PAGE = (DOCS / "figures" / "capacity.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^ {4}gateway (plan [^\n]*)\n\n```text\n(.*?)\n```$", PAGE, re.M | re.S)

pytestmark = pytest.mark.usefixtures("bare")


def test_the_page_has_four_examples() -> None:
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize(("command", "output"), EXAMPLES)
def test_an_example_is_what_the_command_prints(
    command: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out.rstrip() == output
