"""Line and bar charts as SVG for a page, drawn by matplotlib.

Owns: colours, values on hover, the text for screen readers. Must not know: what was measured, where
it is written. matplotlib takes half a second to import, so it is imported when a chart is drawn.

Series differ by dash and by colour; the colours are those of Okabe and Ito, which most colour-blind
people can tell apart. The page turns them to dark by a filter.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from caption_tools.report.table import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point = tuple[float, float | None]  # x and y; a y of None is a gap in the line

SIZE = 7.5, 3.5  # width and height in inches of 72 pixels
MARKED = 60  # points of a line up to which each has a dot, which shows its values on hover
FEW = 10  # values of a logarithmic axis up to which each has a tick
LETTERS = 90  # letters that fit below a chart side by side
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b98900", "#3b8fc4", "#6a51a3", "#444444")
METADATA = ("Creator", "Date", "Format", "Type")
"""Keys of the metadata that matplotlib would write about itself into each chart."""
DASHES = ("-", "--", ":", "-.")


def lines(
    title: str,
    series: Mapping[str, Sequence[Point]],
    *,
    x: str,
    y: str,
    x_log: bool = False,
    marks: Mapping[str, float] | None = None,
    reach: Sequence[float] = (),
) -> str:
    """Return a line chart with one line for each series.

    :param x_log: logarithmic x axis, with a tick at each x if they are few
    :param marks: named values on the y axis, such as goals, drawn across
    :param reach: values that the x axis must include, so that charts of one run have the same axis
    """
    told = [f"{y} over {x}"]

    def draw(axes: Axes, tip: Callable[[str], str]) -> None:
        for place, (name, points) in enumerate(series.items()):
            colour = COLOURS[place % len(COLOURS)]
            dash = DASHES[(place + place // len(COLOURS)) % len(DASHES)]
            ys = [float("nan") if value is None else value for _, value in points]
            axes.plot([at for at, _ in points], ys, dash, color=colour, label=name)
            known = [(at, value) for at, value in points if value is not None]
            for at, value in known if len(points) <= MARKED else ():
                hover = tip(f"{name}: {number(at)}, {number(value)}")
                axes.plot([at], [value], "o", color=colour, markersize=4, gid=hover)
            if values := [value for _, value in known]:
                told.append(
                    f"{name} from {number(min(values))} to {number(max(values))},"
                    f" last {number(values[-1])}"
                )
        for at in reach:
            axes.axvline(at, alpha=0)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        if x_log:
            axes.set_xscale("log")
            xs = sorted({at for points in series.values() for at, _ in points})
            axes.minorticks_off()
            axes.xaxis.set_major_formatter("{x:g}")
            if len(xs) <= FEW:
                axes.set_xticks(xs)

    return _svg(title, told, draw, x, y, marks or {})


def bars(
    title: str,
    rows: Mapping[str, Mapping[str, float | None]],
    *,
    y: str,
    y_log: bool = False,
    marks: Mapping[str, float] | None = None,
) -> str:
    """Return a bar chart with a group for each row and a bar for each series; None has no bar.

    :param marks: as in `lines`
    """
    names = list(dict.fromkeys(name for values in rows.values() for name in values))
    told = [f"Bars, {y}"]

    def draw(axes: Axes, tip: Callable[[str], str]) -> None:
        width = 0.8 / max(1, len(names))
        for place, name in enumerate(names):
            given = [(group, values.get(name)) for group, values in enumerate(rows.values())]
            drawn = [(group, value) for group, value in given if value is not None]
            at = [group + (place - (len(names) - 1) / 2) * width for group, _ in drawn]
            colour = COLOURS[place % len(COLOURS)]
            made = axes.bar(at, [value for _, value in drawn], width, color=colour, label=name)
            for bar, (group, value) in zip(made, drawn, strict=True):
                bar.set_gid(tip(f"{list(rows)[group]}, {name}: {number(value)}"))
        for row, values in rows.items():
            some = ", ".join(f"{name} {number(value)}" for name, value in values.items())
            told.append(f"{row}: {some}")
        letters = max(6, LETTERS // max(1, len(rows)))
        axes.set_xticks(range(len(rows)), [textwrap.fill(row, letters) for row in rows])
        if y_log:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")

    return _svg(title, told, draw, "", y, marks or {})


def _svg(
    title: str,
    told: list[str],
    draw: Callable[[Axes, Callable[[str], str]], None],
    x: str,
    y: str,
    marks: Mapping[str, float],
) -> str:
    """Return a chart with title, legend and marks.

    :param told: the chart in words; ``draw`` adds to it
    :param draw: draws the series, given the axes and a function that returns the id of an element
        with a text on hover
    """
    import matplotlib
    from matplotlib.figure import Figure

    tips: list[str] = []

    def tip(text: str) -> str:
        tips.append(text)
        return f"tip-{len(tips)}-"

    # Names are no formulas, and ids must differ between the charts of a page.
    style: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": title}
    style |= {"text.parse_math": False, "path.simplify_threshold": 1.0}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.add_subplot(title=title, xlabel=x, ylabel=y)
        axes.grid(alpha=0.4)
        axes.set_axisbelow(True)
        for value in marks.values():
            axes.axhline(value, color="#666666", linestyle=":")
        draw(axes, tip)
        for name, value in marks.items():
            axes.annotate(
                name, (1, value), xycoords=("axes fraction", "data"), ha="right", va="bottom"
            )
        if axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside lower center", ncols=4, frameon=False)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata=dict.fromkeys(METADATA))
    body = out.getvalue()
    for place, text in enumerate(tips, 1):
        body = body.replace(f'<g id="tip-{place}-">', f"<g><title>{escape(text)}</title>", 1)
    label = escape(f"{title}. {'; '.join(told)}")
    return f'<svg class="chart" role="img" aria-label="{label}" ' + body.partition("<svg ")[2]
