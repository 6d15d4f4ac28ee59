"""Line and bar charts as SVG, alone or inside a page.

Owns: scales, ticks, colours, the text for screen readers. Must not know: what was measured, where
it is written. No plotting library draws them: the small ones need scripts or have neither dark mode
nor a text for screen readers, and a report must be one file without scripts.

Colours follow the reader's light or dark system. Series differ by dash and by colour; the colours
are those of Okabe and Ito, which most colour-blind people can tell apart. Each point shows its
values on hover.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from gateway.cli.report.table import number

Point = tuple[float, float | None]
"""x and y; a y of None is a gap in the line."""

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 34, 46
"""Margins of the plot in pixels; each row of the legend adds `ROW` at the top."""
ROW, LETTER, GAP = 18, 6.6, 14
"""Height of a text line, width of a letter, space between two names, in pixels."""
TICKS = 6
"""Number of ticks on an axis, approximately."""
POINTS = 400
"""Points of a line at most; of more the lowest and highest of each stretch are drawn."""
MARKED = 60
"""Points of a line up to which each has a dot."""
SERIES = 8
"""Number of colours; the next series has the first colour with another dash."""

STYLE = (
    ".chart{--ink:#222;--dim:#666;--grid:#ddd;--ground:#fff;"
    "--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#b98900;--c5:#3b8fc4;"
    "--c6:#6a51a3;--c7:#444}"
    "@media(prefers-color-scheme:dark){.chart{--ink:#eee;--dim:#aaa;--grid:#444;--ground:#181818;"
    "--c0:#56b4e9;--c1:#ff8c42;--c2:#2fd0a5;--c3:#e7a6c8;--c4:#f0e442;--c5:#8fc7ea;"
    "--c6:#b3a2e0;--c7:#bbb}}"
    ".chart text{font:12px sans-serif;fill:var(--ink)}.chart .dim{fill:var(--dim)}"
    ".chart .head{font-weight:bold}.chart .ground{fill:var(--ground)}"
    ".chart .grid{stroke:var(--grid)}.chart .mark{stroke:var(--dim);stroke-dasharray:2 3}"
    ".chart .line{fill:none;stroke-width:2}"
    + "".join(
        f".chart .s{n}{{stroke:var(--c{n})}}.chart .f{n}{{fill:var(--c{n})}}" for n in range(SERIES)
    )
)
DASHES = ("", "6 3", "2 3", "8 3 2 3")


class Scale:
    """A linear or logarithmic mapping from values to pixels, with ticks.

    :param values: values that must fit in
    :param begin: pixel of the least value
    :param end: pixel of the largest value
    :param ticks: values to mark; empty: they are chosen here
    """

    def __init__(
        self,
        values: Iterable[float],
        begin: float,
        end: float,
        *,
        log: bool = False,
        zero: bool = True,
        ticks: Sequence[float] = (),
    ) -> None:
        found = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
        low, high = (min(found), max(found)) if found else (1.0 if log else 0.0, 1.0)
        if not log and zero:
            low, high = min(low, 0.0), max(high, 0.0)
        if log:
            self.ticks = list(ticks) or _decades(low, high)
        else:
            self.ticks = list(ticks) or _even(low, high)
        self.log = log
        self.low, self.high = min(low, *self.ticks), max(high, *self.ticks)
        # One value alone would have a scale of no length.
        if self.low == self.high:
            self.high = self.low * 2 if log else self.low + 1
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        """Return the pixel of a value. Values outside are moved to the edge."""
        value = min(self.high, max(self.low, value))
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self._begin + share * (self._end - self._begin), 1)


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

    :param x: label of the x axis with its unit
    :param y: label of the y axis with its unit
    :param x_log: logarithmic x axis, with a tick at each x if they are few
    :param marks: named values on the y axis, such as goals, drawn across
    :param reach: values that the x axis must include, so that charts of one run have the same axis
    """
    marks = marks or {}
    drawn = {name: _thinned(points) for name, points in series.items()}
    xs = [at for points in drawn.values() for at, _ in points] + list(reach)
    ys = [value for points in drawn.values() for _, value in points if value is not None]
    top, legend = _legend(list(series), dashed=True)
    few = sorted({at for at in xs if at > 0}) if x_log else []
    across = Scale(
        xs, LEFT, WIDTH - RIGHT, log=x_log, zero=False, ticks=few if len(few) <= 10 else ()
    )
    up = Scale([*ys, *marks.values()], HEIGHT - BOTTOM, top)
    parts = [*legend, *_axes(across, up, top, x, y)]
    parts += _marked(marks, up)
    for place, (name, points) in enumerate(drawn.items()):
        parts += _line(place, name, points, across, up)
    return _svg(title, _told(series, x, y), parts)


def bars(
    title: str,
    rows: Mapping[str, Mapping[str, float | None]],
    *,
    y: str,
    y_log: bool = False,
    marks: Mapping[str, float] | None = None,
) -> str:
    """Return a bar chart with a group for each row and a bar for each series; None has no bar.

    :param y: label of the y axis with its unit
    :param marks: as in `lines`
    """
    marks = marks or {}
    names = list(dict.fromkeys(name for values in rows.values() for name in values))
    top, legend = _legend(names, dashed=False)
    found = [value for values in rows.values() for value in values.values() if value is not None]
    up = Scale([*found, *marks.values()], HEIGHT - BOTTOM, top, log=y_log)
    parts = [*legend, *_axes(None, up, top, "", y)]
    wide = (WIDTH - LEFT - RIGHT) / max(1, len(rows))
    each = 0.8 * wide / max(1, len(names))
    for group, (row, values) in enumerate(rows.items()):
        left = LEFT + group * wide
        middle = round(left + wide / 2, 1)
        parts.append(
            f'<text x="{middle}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
            f"{escape(_cut(row, wide))}<title>{escape(row)}</title></text>"
        )
        for place, name in enumerate(names):
            value = values.get(name)
            if value is None:
                continue
            at, foot = up(value), up(up.low if y_log else 0.0)
            parts.append(
                f'<rect class="f{place % SERIES}" x="{round(left + 0.1 * wide + place * each, 1)}"'
                f' y="{min(at, foot)}" width="{round(max(1.0, each - 1), 1)}"'
                f' height="{round(abs(foot - at), 1)}">'
                f"<title>{escape(f'{row}, {name}: {number(value)}')}</title></rect>"
            )
    parts += _marked(marks, up)
    told = [
        f"{row}: " + ", ".join(f"{name} {number(value)}" for name, value in values.items())
        for row, values in rows.items()
    ]
    return _svg(title, f"Bars, {y}. " + "; ".join(told), parts)


# --- parts ---------------------------------------------------------------------------------------


def _svg(title: str, told: str, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img"'
            f' viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
            f' aria-label="{escape(f"{title}. {told}")}"><style>{STYLE}</style>',
            f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
            f'<text class="head" x="{LEFT}" y="18">{escape(title)}</text>',
            *parts,
            "</svg>\n",
        ]
    )


def _told(series: Mapping[str, Sequence[Point]], x: str, y: str) -> str:
    """Return the chart in words: the range of each line."""
    found = [f"{y} over {x}"]
    for name, points in series.items():
        values = [value for _, value in points if value is not None]
        if values:
            found.append(
                f"{name} from {number(min(values))} to {number(max(values))},"
                f" last {number(values[-1])}"
            )
    return "; ".join(found)


def _legend(names: Sequence[str], *, dashed: bool) -> tuple[float, list[str]]:
    """Return the top of the plot below the legend, and the parts of the legend."""
    parts: list[str] = []
    at, row = float(LEFT), 0
    for place, name in enumerate(names):
        mark = 22 if dashed else 12
        width = mark + 5 + LETTER * len(name) + GAP
        # A name that does not fit begins a new row, unless it has a row to itself already.
        if at + width > WIDTH - RIGHT and at > LEFT:
            at, row = float(LEFT), row + 1
        y = TOP + row * ROW
        if dashed:
            parts.append(
                f'<line class="line s{place % SERIES}"{_dash(place)} x1="{at:.1f}"'
                f' x2="{at + mark:.1f}" y1="{y}" y2="{y}"/>'
            )
        else:
            parts.append(
                f'<rect class="f{place % SERIES}" x="{at:.1f}" y="{y - 6}" width="{mark}"'
                f' height="12"/>'
            )
        parts.append(f'<text x="{at + mark + 5:.1f}" y="{y + 4}">{escape(name)}</text>')
        at += width
    return TOP + (row + 1) * ROW if names else TOP, parts


def _axes(across: Scale | None, up: Scale, top: float, x: str, y: str) -> list[str]:
    parts: list[str] = []
    for tick in up.ticks:
        at = up(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(
            f'<text class="dim" x="{LEFT - 6}" y="{at + 4}" text-anchor="end">{_tick(tick)}</text>'
        )
    foot = HEIGHT - BOTTOM
    for tick, at in [(tick, across(tick)) for tick in across.ticks] if across else []:
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{top}" y2="{foot}"/>')
        parts.append(
            f'<text class="dim" x="{at}" y="{foot + 16}" text-anchor="middle">{_tick(tick)}</text>'
        )
    middle = (top + foot) / 2
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{escape(x)}</text>"
    )
    parts.append(
        f'<text transform="translate(16,{middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(y)}</text>"
    )
    return parts


def _marked(marks: Mapping[str, float], up: Scale) -> list[str]:
    parts: list[str] = []
    for name, value in marks.items():
        at = up(value)
        parts.append(f'<line class="mark" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(
            f'<text class="dim" x="{WIDTH - RIGHT}" y="{at - 4}" text-anchor="end">'
            f"{escape(name)}</text>"
        )
    return parts


def _line(place: int, name: str, points: Sequence[Point], across: Scale, up: Scale) -> list[str]:
    parts: list[str] = []
    pieces: list[list[str]] = [[]]
    for at, value in points:
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{across(at)},{up(value)}")
    parts += [
        f'<polyline class="line s{place % SERIES}"{_dash(place)} points="{" ".join(piece)}"/>'
        for piece in pieces
        if len(piece) > 1
    ]
    small = len(points) <= MARKED
    parts += [
        f'<circle class="f{place % SERIES}" cx="{across(at)}" cy="{up(value)}" r="3">'
        f"<title>{escape(f'{name}: {number(at)}, {number(value)}')}</title></circle>"
        for at, value in points
        if small and value is not None
    ]
    return parts


def _dash(place: int) -> str:
    dash = DASHES[(place + place // SERIES) % len(DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Return all points if they are few, else of each stretch the lowest, the highest and the first
    gap.

    A peak of one point must stay visible.
    """
    if len(points) <= POINTS:
        return list(points)
    size = math.ceil(3 * len(points) / POINTS)
    found: list[Point] = []
    for begin in range(0, len(points), size):
        values, gaps = [], []
        for place in range(begin, min(begin + size, len(points))):
            value = points[place][1]
            if value is None:
                gaps.append(place)
            else:
                values.append((value, place))
        kept = {*gaps[:1], *(place for _, place in (values and (min(values), max(values))))}
        found += [points[place] for place in sorted(kept)]
    return found


def _cut(text: str, width: float) -> str:
    most = max(1, int(width / LETTER))
    return text if len(text) <= most else text[: most - 1] + "…"


def _even(low: float, high: float) -> list[float]:
    """Return ticks at 1, 2 or 5 times a power of ten, from below ``low`` to above ``high``."""
    if low == high:
        high = low + 1
    rough = (high - low) / (TICKS - 1)
    size = 10 ** math.floor(math.log10(rough))
    step = size * next(nice for nice in (1, 2, 5, 10) if nice * size >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [place * step for place in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Return ticks at the powers of ten; if these are few, also at 2 and 5 times them."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 2 else (1,)
    ticks = [nice * 10.0**power for power in range(first, last + 1) for nice in steps]
    under = max((tick for tick in ticks if tick <= low), default=ticks[0])
    over = min((tick for tick in ticks if tick >= high), default=ticks[-1])
    return [tick for tick in ticks if under <= tick <= over]


def _tick(value: float) -> str:
    """Return a round number as text, with thousands and millions shortened."""
    for size, letter in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e6 if letter == 'M' else 1e3):.4g}{letter}"
    return f"{value:.4g}"
