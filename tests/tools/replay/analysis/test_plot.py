"""The picture of a replay."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from caption_tools.replay.analysis import plot
from caption_tools.replay.analysis.measure import ReaderRecord
from caption_tools.replay.meeting.script import RecogniserUpdate, ScriptUtterance, ShownCaption

SVG = "{http://www.w3.org/2000/svg}"

SAID = ScriptUtterance(
    id="1",
    lang="en",
    text="a < b",
    t0=1.0,
    t1=3.0,
    updates=(RecogniserUpdate(1.5, "a"), RecogniserUpdate(2.0, "a b")),
)
SHOWN = (
    ShownCaption(1.6, "", "eins zwei"),
    ShownCaption(2.1, "eins", " & drei"),
    ShownCaption(2.2, "eins", " & drei vier"),
    ShownCaption(3.5, "eins drei", "", True),
)


def drawn(shown: tuple[ShownCaption, ...], count: int = 1) -> ElementTree.Element:
    return ElementTree.fromstring(plot.svg({"de": [ReaderRecord(said=SAID, shown=shown)] * count}))


def named(picture: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [one for one in picture.iter() if one.get("class") == name]


def test_updates_final_text_and_caption_are_marked_at_their_times() -> None:
    picture = drawn(SHOWN)
    at = {name: [one.get("x1") or one.get("cx") for one in named(picture, name)] for name in (
        "said", "end", "first", "final", "taken")}  # fmt: skip
    # 2.5 seconds on 320 pixels.
    assert at == {
        "said": ["64.0", "128.0"],
        "end": ["256.0"],
        "first": ["76.8"],
        "final": ["320.0"],
        "taken": ["140.8", "320.0"],
    }


def test_shown_and_stable_text_are_areas() -> None:
    for name in ("shown", "stable"):
        (area,) = named(drawn(SHOWN), name)
        points = re.findall(r"([\d.]+),([\d.]+)", area.get("points") or "")
        assert all(0 <= float(x) <= plot.WIDTH and 0 <= float(y) <= plot.HEIGHT for x, y in points)


def test_texts_of_others_are_escaped_and_can_be_read() -> None:
    (title,) = drawn((*SHOWN[:2], ShownCaption(3.5, "<script>", "", True))).iter(f"{SVG}title")
    assert title.text == "a < b\n<script>"


def test_a_caption_that_never_came_has_no_area() -> None:
    picture = drawn(())
    assert not named(picture, "shown")
    assert len(named(picture, "said")) == 2


def test_a_caption_that_failed_has_no_dots() -> None:
    picture = drawn((ShownCaption(1.6, "", "eins"), ShownCaption(2.0, "", "", True)))
    assert named(picture, "shown")
    assert not named(picture, "final")


def test_only_the_first_utterances_are_drawn() -> None:
    assert len(named(drawn(SHOWN, plot.ROWS + 1), "cell")) == plot.ROWS
    assert plot.svg({}).startswith("<svg")
