"""A picture of a replay: when each utterance was heard, shown, erased and finished.

Owns: one SVG. Must not know: how it was measured, where it is written. matplotlib would need
hundreds of axes for it, and has no texts that a browser shows on hover.

A row is an utterance, a column a language. The x axis is the time from the beginning of the
utterance until its caption was finished; the corner says how long that took. Grey ticks are updates
of the source, the black one its final text. The light area is the shown text, the dark one its
stable part; a red bar is as high as what was erased; the green dot is the first text, the blue dot
the final.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from caption_tools.replay.analysis import measure
from caption_tools.replay.analysis.measure import ReaderRecord
from gateway.text import units

ROWS = 100  # utterances drawn; of a longer meeting the first

WIDTH, HEIGHT, GAP, HEAD = 320, 40, 14, 24
"""Width and height of one cell, gap around it, height of the heading, in pixels."""

STYLE = (
    "text{font:12px sans-serif}.shown{fill:#bcd}.stable{fill:#468}.said{stroke:#999}"
    ".end{stroke:#000;stroke-width:2}.taken{stroke:#c00;stroke-width:3}.first{fill:#080}"
    ".final{fill:#00c}.cell{fill:#f6f6f6}.time{fill:#888}"
)


def svg(readings: Mapping[str, Sequence[ReaderRecord]]) -> str:
    """Return the picture of the same utterances as readers of some languages saw them."""
    rows = min(ROWS, max(map(len, readings.values()), default=0))
    width, height = (WIDTH + GAP) * len(readings) + GAP, (HEIGHT + GAP) * rows + HEAD + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}"><style>{STYLE}</style>'
    ]
    for column, (lang, records) in enumerate(readings.items()):
        left = GAP + column * (WIDTH + GAP)
        parts.append(f'<text x="{left}" y="16">{escape(lang)}</text>')
        for row, reading in enumerate(records[:ROWS]):
            top = HEAD + row * (HEIGHT + GAP)
            parts.append(f'<g transform="translate({left},{top})">')
            parts += _cell(reading, units.spaced(lang))
            parts.append("</g>")
    return "\n".join([*parts, "</svg>\n"])


def _cell(reading: ReaderRecord, spaced: bool) -> list[str]:
    said, shown = reading.said, reading.shown
    final = shown[-1].text if shown else ""
    parts = [
        f"<title>{escape(said.text)}\n{escape(final)}</title>",
        f'<rect class="cell" width="{WIDTH}" height="{HEIGHT}"/>',
    ]
    last = max([said.t1, *(state.at for state in shown)])
    across = WIDTH / max(last - said.t0, 1e-3)
    sizes = [len(measure.counted(state.text, spaced=spaced)) for state in shown]
    up = HEIGHT / max([1, *sizes])

    def x(at: float) -> float:
        return round((at - said.t0) * across, 1)

    def area(name: str, heights: Sequence[int]) -> str:
        points = [f"{x(shown[0].at)},{HEIGHT}"]
        spans = pairwise([*(state.at for state in shown), last])
        for (begin, end), size in zip(spans, heights, strict=True):
            level = round(HEIGHT - size * up, 1)
            points += [f"{x(begin)},{level}", f"{x(end)},{level}"]
        return f'<polygon class="{name}" points="{" ".join(points)} {WIDTH},{HEIGHT}"/>'

    if shown:
        parts.append(area("shown", sizes))
        stable = [len(measure.counted(state.stable, spaced=spaced)) for state in shown]
        parts.append(area("stable", stable))
    parts += [_line("said", x(update.at), HEIGHT - 5) for update in said.updates]
    parts.append(_line("end", x(said.t1), 0))
    for old, new in pairwise(shown):
        gone = measure.taken(*(measure.counted(state.text, spaced=spaced) for state in (old, new)))
        if gone:
            parts.append(_line("taken", x(new.at), round(HEIGHT - gone * up, 1)))
    parts.append(f'<text class="time" x="4" y="14">{last - said.t0:.1f} s</text>')
    if reading.final is not None:
        parts.append(_dot("first", x(measure.visible(shown))))
        parts.append(_dot("final", x(reading.final.at)))
    return parts


def _line(name: str, x: float, top: float) -> str:
    return f'<line class="{name}" x1="{x}" x2="{x}" y1="{top}" y2="{HEIGHT}"/>'


def _dot(name: str, x: float) -> str:
    return f'<circle class="{name}" cx="{x}" cy="{HEIGHT}" r="4"/>'
