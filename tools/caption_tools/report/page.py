"""A report as one HTML file with headings, text, tables and charts.

Owns: the page and its style. Must not know: the content. It has no script, and its policy forbids
every resource, so that it can be opened anywhere and sent to anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import msgspec

from caption_tools.report.table import Cell, number

STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:1rem 0}"
    "th,td{padding:.2rem .7rem;border-bottom:1px solid #8886;text-align:right}"
    "th:first-child,td:first-child,.words{text-align:left}caption{text-align:left;font-weight:bold}"
    "h1{overflow-wrap:anywhere;font-size:clamp(1.3rem,6vw,2rem)}"
    ".wide{overflow-x:auto}.note{opacity:.8}"
    "svg{min-width:36rem;max-width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){.chart{filter:invert(.9) hue-rotate(180deg)}}"
    ".bad{border-left:.3rem solid #c33;padding-left:.7rem}"
    "pre{overflow-x:auto;padding:.7rem;border:1px solid #8886}"
)
SCOPE = ' scope="col"'
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Table(msgspec.Struct, frozen=True):
    """Rows under heads, with a caption."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A section of a page: warnings, text (one paragraph each), tables, charts (SVG), and text that
    is shown verbatim, such as a command or a file.
    """

    head: str
    warnings: Sequence[str] = ()
    text: Sequence[str] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[str] = ()
    verbatim: Sequence[str] = ()


def html(title: str, sections: Sequence[Section], *, lang: str = "en") -> str:
    """Return the page."""
    parts = [
        f'<!doctype html>\n<html lang="{escape(lang)}"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>",
        f"<h1>{escape(title)}</h1>",
    ]
    for section in sections:
        parts.append(f"<section><h2>{escape(section.head)}</h2>")
        parts += [f'<p class="bad">{escape(line)}</p>' for line in section.warnings]
        parts += [f"<p>{escape(line)}</p>" for line in section.text]
        parts += [_table(table) for table in section.tables]
        parts += [f'<div class="wide">{chart}</div>' for chart in section.charts]
        parts += [f"<pre>{escape(block)}</pre>" for block in section.verbatim]
        parts.append("</section>")
    return "\n".join([*parts, "</main></body></html>\n"])


def _table(table: Table) -> str:
    columns = range(len(table.heads))
    # A column with a text to read stands left; figures with their units stand right.
    words = [any(" " in str(row[at]) for row in table.rows) for at in columns]
    kinds = [' class="words"' if word else "" for word in words]

    def row(tag: str, scope: str, cells: Sequence[Cell]) -> str:
        return "".join(
            f"<{tag}{scope}{kind}>{escape(number(cell))}</{tag}>"
            for kind, cell in zip(kinds, cells, strict=True)
        )

    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    rows = "".join(f"<tr>{row('td', '', cells)}</tr>" for cells in table.rows)
    return (
        f'<div class="wide"><table>{caption}<thead><tr>{row("th", SCOPE, table.heads)}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
