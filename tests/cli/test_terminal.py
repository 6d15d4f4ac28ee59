"""Captions on a terminal: finished lines above, growing ones redrawn below."""

from __future__ import annotations

import io
import re

import pytest

from gateway.cli.terminal import Screen, head, tail, width


class Terminal(io.StringIO):
    """A terminal that understands the sequences of `Screen`."""

    def isatty(self) -> bool:
        return True

    def rows(self) -> list[str]:
        """Return the text on the screen."""
        rows = [""]
        for text, up, clear in re.findall(r"([^\x1b]+)|\x1b\[(\d+)F|(\x1b\[J)", self.getvalue()):
            if text:
                first, *more = text.split("\n")
                rows[-1] += first
                rows += more
            elif clear:
                rows[-1] = ""
            else:
                del rows[len(rows) - int(up) :]
        return rows[:-1]


def test_growing_captions_are_redrawn_below_the_finished_ones() -> None:
    out = Terminal()
    screen = Screen(out)
    screen.draw(["[de] Gu"])
    screen.draw(["[de] Guten", "[fr] Bon"])
    assert out.rows() == ["[de] Guten", "[fr] Bon"]
    screen.finish("[de] Guten Tag")
    screen.draw(["[fr] Bonjour"])
    assert out.rows() == ["[de] Guten Tag", "[fr] Bonjour"]
    screen.draw([])
    assert out.rows() == ["[de] Guten Tag"]


def test_a_typed_line_stands_above_what_grows() -> None:
    out = Terminal()
    screen = Screen(out)
    screen.draw(["[de] Gu"])
    out.write("hello\n")  # the terminal's echo
    screen.typed("hello")
    assert out.rows() == ["> hello", "[de] Gu"]


def test_without_a_terminal_only_finished_lines_are_written() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.draw(["[de] Gu"])
    screen.typed("hello")
    screen.finish("[de] Guten Tag")
    assert out.getvalue() == "[de] Guten Tag\n"


def test_a_caption_cannot_steer_the_terminal() -> None:
    out = io.StringIO()
    Screen(out).finish("a\x1b[2Jb\x07c\x9bd")
    assert out.getvalue() == "a [2Jb c d\n"


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "…nger"),
        ("今日は", 6, "今日は"),
        ("今日は", 5, "…日は"),
    ],
)
def test_a_long_growing_caption_shows_its_end_on_one_row(
    text: str, columns: int, shown: str
) -> None:
    assert tail(text, columns) == shown
    assert width(shown) <= columns


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("今日は", 6, "今日は"),
        ("今日は", 5, "今日…"),
    ],
)
def test_a_line_is_named_by_its_beginning(text: str, columns: int, shown: str) -> None:
    assert head(text, columns) == shown
    assert width(shown) <= columns
