"""A report as one HTML file."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from caption_tools.report import page
from caption_tools.report.chart import lines
from caption_tools.report.page import Section, Table, html

VOID = {"meta"}


class Reader(HTMLParser):
    """Complains of elements that are not closed in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert not reader.open
    return reader


PAGE = html(
    "A <report>",
    [
        Section(
            head="All & everything",
            warnings=["not <good>"],
            text=["one", "two"],
            tables=[Table(("name", "n"), (("<a>", 1.5),), "What & why"), Table(("x",), ())],
            charts=[lines("T", {"a": [(0, 1)]}, x="", y="")],
            verbatim=["gateway bench <load>"],
        ),
        Section(head="Nothing"),
    ],
)


def test_a_page_is_well_formed_and_texts_are_escaped() -> None:
    texts = read(PAGE).texts
    for text in ("A <report>", "All & everything", "not <good>", "<a>", "1.50", "What & why"):
        assert text in texts
    assert "gateway bench <load>" in texts


def test_a_page_loads_no_external_resource() -> None:
    assert not re.search(r"\b(src|href)=(?!.#)|@import|url\((?!#)|<script", PAGE)
    assert page.POLICY.split(";")[0] == "default-src 'none'"


def test_words_in_a_table_are_flush_left_and_figures_flush_right() -> None:
    table = Table(("", "architecture", "use", "n"), [("(a)", "one worker", "50%", 1), ("b",) * 4])
    made = html("T", [Section(head="S", tables=[table])])
    assert '<th scope="col" class="words">architecture</th>' in made
    assert '<td class="words">one worker</td><td>50%</td><td>1</td>' in made


def test_charts_stay_legible_on_a_phone_and_scroll_in_themselves() -> None:
    assert "svg{min-width:36rem" in PAGE and ".wide{overflow-x:auto}" in PAGE
    assert re.search(r'<div class="wide"><svg', PAGE)
