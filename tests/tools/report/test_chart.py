"""Charts that matplotlib draws."""

from __future__ import annotations

from xml.etree import ElementTree

from caption_tools.report.chart import COLOURS, Point, bars, lines

SVG = "{http://www.w3.org/2000/svg}"


def read(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def texts(picture: ElementTree.Element, kind: str = "text") -> list[str]:
    return [one.text or "" for one in picture.iter(f"{SVG}{kind}")]


def test_a_point_says_its_values_and_texts_of_others_are_escaped() -> None:
    picture = read(lines("<b>", {"a & b": [(1, 2.5)]}, x="<x>", y="$y$"))
    assert texts(picture, "title") == ["a & b: 1, 2.50"]
    assert {"<b>", "<x>", "$y$", "a & b"} <= set(texts(picture))


def test_a_gap_in_a_line_has_no_point() -> None:
    points: list[Point] = [(0, 1), (1, None), (2, 3)]
    assert texts(read(lines("T", {"a": points}, x="s", y="ms")), "title") == [
        "a: 0, 1",
        "a: 2, 3",
    ]


def test_a_screen_reader_is_told_what_the_lines_do() -> None:
    label = read(lines("T", {"a": [(0, 1), (1, 3)], "none": [(0, None)]}, x="s", y="ms"))
    assert label.get("role") == "img"
    assert label.get("aria-label") == "T. ms over s; a from 1 to 3, last 3"


def test_a_long_line_has_no_dots_and_stays_small() -> None:
    text = lines("T", {"a": [(n, n % 97) for n in range(5000)]}, x="s", y="ms")
    assert len(text) < 100_000
    assert texts(read(text), "title") == []


def test_charts_of_one_run_have_the_same_x_axis() -> None:
    axes = [texts(read(lines("T", {"a": [(0, 1), (end, 2)]}, x="s", y="ms", reach=(0, 60))))
            for end in (5, 50)]  # fmt: skip
    assert axes[0] == axes[1] and "60" in axes[0]


def test_few_values_on_a_logarithmic_axis_are_its_ticks() -> None:
    few = texts(read(lines("T", {"a": [(1, 2), (16, 5), (64, 9)]}, x="s", y="ms", x_log=True)))
    assert {"1", "16", "64"} <= set(few)
    many = {"a": [(1.5 * n, 2.0) for n in range(1, 40)]}
    assert "58.5" not in texts(read(lines("T", many, x="s", y="ms", x_log=True)))


def test_more_series_than_colours_still_differ() -> None:
    many = {str(n): [(0.0, n), (1.0, n)] for n in range(len(COLOURS) + 1)}
    styles = [
        path.get("style")
        for group in read(lines("T", many, x="s", y="ms")).iter(f"{SVG}g")
        if (group.get("id") or "").startswith("line2d")
        for path in group.findall(f"{SVG}path")
        if "stroke-width: 1.5" in (path.get("style") or "")
    ]
    assert len(set(styles)) == len(many)


def test_a_goal_is_drawn_across_and_named() -> None:
    assert "goal" in texts(read(lines("T", {"a": [(0, 1)]}, x="s", y="ms", marks={"goal": 9})))
    assert "goal" in texts(read(bars("T", {"r": {"a": 1.0}}, y="ms", marks={"goal": 9})))


def test_bars_show_their_values_and_missing_ones_are_left_out() -> None:
    picture = read(bars("T", {"one": {"p50": 1.0, "p95": None}, "two": {"p50": 2.0}}, y="ms"))
    assert texts(picture, "title") == ["one, p50: 1.00", "two, p50: 2.00"]
    assert picture.get("aria-label") == "T. Bars, ms; one: p50 1.00, p95 -; two: p50 2.00"


def test_bars_on_a_logarithmic_axis_have_powers_of_ten() -> None:
    found = texts(read(bars("T", {"r": {"a": 1.0, "b": 2000.0}}, y="ms", y_log=True)))
    assert {"1", "10", "100", "1000"} <= set(found)


def test_a_chart_without_values_is_drawn() -> None:
    read(lines("T", {}, x="s", y="ms"))
    read(bars("T", {}, y="ms"))
