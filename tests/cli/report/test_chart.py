"""Charts drawn by hand."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.report import chart
from gateway.cli.report.chart import HEIGHT, LEFT, RIGHT, WIDTH, Point, Scale, bars, lines

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.floats(min_value=-1e9, max_value=1e9)


def read(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def texts(picture: ElementTree.Element) -> list[str]:
    return [one.text or "" for one in picture.iter(f"{SVG}text")]


def test_a_line_goes_from_edge_to_edge_and_from_zero_up() -> None:
    picture = read(lines("T", {"a": [(0, 0), (5, 50), (10, 100)]}, x="s", y="ms"))
    (line,) = (one.get("points") for one in picture.iter(f"{SVG}polyline"))
    points = [[float(at) for at in pair.split(",")] for pair in (line or "").split()]
    assert points[0] == [LEFT, HEIGHT - chart.BOTTOM]
    assert points[1][0] == pytest.approx((points[0][0] + points[2][0]) / 2)
    assert points[2][0] == WIDTH - RIGHT


def test_a_gap_splits_a_line_and_a_single_point_is_a_dot() -> None:
    points: list[Point] = [(0, 1), (1, 2), (2, None), (3, 1), (4, None), (5, 1), (6, 2)]
    picture = read(lines("T", {"a": points}, x="s", y="ms"))
    assert len(list(picture.iter(f"{SVG}polyline"))) == 2
    assert len(list(picture.iter(f"{SVG}circle"))) == 5


def test_a_point_says_its_values_and_texts_of_others_are_escaped() -> None:
    picture = read(lines("<b>", {"a & b": [(1, 2.5)]}, x="<x>", y="&y"))
    titles = [one.text for one in picture.iter(f"{SVG}title")]
    assert "a & b: 1, 2.50" in titles
    assert {"<b>", "<x>", "&y", "a & b"} <= set(texts(picture))


def test_a_screen_reader_is_told_what_the_lines_do() -> None:
    label = read(lines("T", {"a": [(0, 1), (1, 3)], "none": [(0, None)]}, x="s", y="ms"))
    assert label.get("role") == "img"
    assert label.get("aria-label") == "T. ms over s; a from 1 to 3, last 3"


def test_many_points_are_thinned_and_have_no_dots() -> None:
    picture = read(lines("T", {"a": [(n, n) for n in range(5000)]}, x="s", y="ms"))
    (line,) = picture.iter(f"{SVG}polyline")
    assert len((line.get("points") or "").split()) <= chart.POINTS
    assert not list(picture.iter(f"{SVG}circle"))


def test_no_peak_of_a_line_is_lost_where_it_is_thinned() -> None:
    points: list[Point] = [(n, 1.0) for n in range(5000)]
    points[1234], points[2345] = (1234, 99.0), (2345, -99.0)
    points[3456] = (3456, None)
    kept = chart._thinned(points)
    assert {points[1234], points[2345], points[3456]} <= set(kept)
    assert len(kept) <= chart.POINTS
    assert kept == sorted(kept, key=lambda point: point[0])


def test_charts_of_one_run_have_the_same_x_axis() -> None:
    def across(points: list[Point]) -> list[str]:
        picture = read(lines("T", {"a": points}, x="s", y="ms", reach=(0.0, 60.0)))
        return [one.get("cx") or "" for one in picture.iter(f"{SVG}circle")]

    (alone,) = across([(30, 1)])
    _, middle, _ = across([(0, 1), (30, 1), (60, 1)])
    assert alone == middle


def test_a_name_stands_nearer_to_its_own_mark_than_to_the_next() -> None:
    row: dict[str, float | None] = {"p50": 1.0, "p95": 2.0}
    picture = read(bars("T", {"row": row}, y="ms"))
    marks = [one for one in picture.iter(f"{SVG}rect") if one.get("height") == "12"]
    names = [one for one in picture.iter(f"{SVG}text") if one.text in row]
    end = float(marks[0].get("x") or 0) + float(marks[0].get("width") or 0)
    begin = float(names[0].get("x") or 0)
    after = float(marks[1].get("x") or 0) - begin - chart.LETTER * len("p50")
    assert begin - end < after


def test_few_values_on_a_logarithmic_axis_are_its_ticks() -> None:
    steps: list[Point] = [(1, 1), (2, 2), (4, 3), (64, 4)]
    assert {"1", "2", "4", "64"} <= set(
        texts(read(lines("T", {"a": steps}, x="n", y="", x_log=True)))
    )
    many: list[Point] = [(n, 1) for n in range(1, 50)]
    assert "13" not in texts(read(lines("T", {"a": many}, x="n", y="", x_log=True)))


def test_more_series_than_colours_still_differ() -> None:
    names = {f"series number {n}": [(0.0, n), (1.0, n)] for n in range(chart.SERIES + 2)}
    picture = read(lines("T", names, x="", y=""))
    looks = [
        (one.get("class"), one.get("stroke-dasharray")) for one in picture.iter(f"{SVG}polyline")
    ]
    assert len(set(looks)) == len(looks)


def test_a_goal_is_drawn_across_and_named() -> None:
    picture = read(lines("T", {"a": [(0, 1), (1, 2)]}, x="", y="", marks={"goal": 10}))
    (mark,) = (one for one in picture.iter(f"{SVG}line") if one.get("class") == "mark")
    assert (mark.get("x1"), mark.get("x2")) == (str(LEFT), str(WIDTH - RIGHT))
    assert "goal" in texts(picture)


def test_bars_stand_on_zero_and_missing_ones_are_left_out() -> None:
    rows: dict[str, dict[str, float | None]] = {
        "one": {"a": 1.0, "b": None},
        "two": {"a": 2.0, "b": -1.0},
    }
    picture = read(bars("T", rows, y="ms", marks={"was": 1.5}))
    drawn = [one for one in picture.iter(f"{SVG}rect") if one.find(f"{SVG}title") is not None]
    heights = [float(one.get("height") or 0) for one in drawn]
    assert len(drawn) == 3
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    feet = [float(one.get("y") or 0) + float(one.get("height") or 0) for one in drawn]
    assert feet[0] == pytest.approx(feet[1], abs=0.2)
    assert float(drawn[2].get("y") or 0) == pytest.approx(feet[0], abs=0.2)
    assert picture.get("aria-label") == "T. Bars, ms. one: a 1.00, b -; two: a 2.00, b -1.00"


def test_bars_on_a_logarithmic_axis_begin_at_its_lower_end() -> None:
    picture = read(bars("T", {"one": {"a": 1.0}, "two": {"a": 1000.0}}, y="", y_log=True))
    drawn = [one for one in picture.iter(f"{SVG}rect") if one.find(f"{SVG}title") is not None]
    assert float(drawn[0].get("height") or 1) == 0
    assert float(drawn[1].get("height") or 0) > 200


def test_a_long_name_under_a_bar_is_cut_and_can_be_read() -> None:
    rows = {"a name that is far too long for its bar " * 3: {"a": 1.0}, "b": {"a": 1.0}}
    picture = read(bars("T", rows, y=""))
    assert any(one.endswith("…") for one in texts(picture))
    assert list(rows)[0] in [one.text for one in picture.iter(f"{SVG}title")]


def test_a_chart_without_values_is_drawn() -> None:
    assert "T" in texts(read(lines("T", {}, x="", y="")))
    assert "T" in texts(read(bars("T", {"a": {}}, y="", y_log=True)))
    assert "T" in texts(read(bars("T", {}, y="")))


@given(st.lists(NUMBERS, max_size=20), st.booleans())
def test_linear_ticks_enclose_all_values(values: list[float], zero: bool) -> None:
    scale = Scale(values, 0, 100, zero=zero)
    assert all(0 <= scale(value) <= 100 for value in values)
    assert scale.ticks == sorted(scale.ticks)
    assert 2 <= len(scale.ticks) <= 13
    assert all(scale.low <= value <= scale.high for value in values)


@given(st.lists(st.floats(min_value=1e-6, max_value=1e9), max_size=20))
def test_logarithmic_ticks_enclose_all_values(values: list[float]) -> None:
    scale = Scale(values, 100, 0, log=True)
    assert all(0 <= scale(value) <= 100 for value in values)
    assert 1 <= len(scale.ticks) <= 17


@pytest.mark.parametrize(
    ("value", "written"), [(0, "0"), (0.25, "0.25"), (5000, "5000"), (20000, "20k"), (3e6, "3M")]
)
def test_ticks_are_short(value: float, written: str) -> None:
    assert chart._tick(value) == written
