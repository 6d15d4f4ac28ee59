"""The texts of an HTML page, and the page with other texts in their places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ClientFault
from gateway.text.markup import Page


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("<p>Hello <b>big</b> world.</p>", ["Hello", "big", "world."]),
        ("plain text", ["plain text"]),
        ("", []),
        ("<br>", []),
        ("<p>12 &ndash; 14</p>", []),
        ("<p>a &lt; b &amp; c</p>", ["a < b & c"]),
        ("<p>a < b</p>", ["a < b"]),
        ("<p>two\n   lines</p>", ["two lines"]),
        ("<pre>two\nlines</pre><p>and\none</p></pre>", ["two\nlines", "and one"]),
        ("<script>let a = '<p>no</p>'</script><p>yes</p>", ["yes"]),
        ("<p>run <code>make</code> now</p>", ["run", "now"]),
        ("<code>a <code>b</code> c</code> d", ["d"]),
        ("<div translate=no>a <div>b</div> c</div><i class='x notranslate'>d</i> e", ["e"]),
        ("<img translate=no alt='x'>a<br translate='no'/>b", ["a", "b"]),
        ("<p translate>a</p>", ["a"]),
        ("<!doctype html><!-- no --><?php no ?><![CDATA[no]]><p>yes", ["yes"]),
        ("<p>unfinished <b", ["unfinished <b"]),
        ("<code>unfinished", []),
        ("<p title='a title'>字幕</p>", ["字幕"]),
        ("a</i></b></code>b", ["a", "b"]),
    ],
)
def test_the_texts_of_a_page_are_those_that_a_reader_sees(source: str, texts: list[str]) -> None:
    assert Page(source).texts == texts


def test_other_texts_stand_in_the_same_places_and_are_escaped() -> None:
    page = Page('<p class="x"> Hello\n<b>big</b>  <i>world</i>! &nbsp;</p>\n<!-- a -->')
    assert page.fill(["Hallo", "a<b", "Welt & co"]) == (
        '<p class="x"> Hallo\n<b>a&lt;b</b>  <i>Welt &amp; co</i>! &nbsp;</p>\n<!-- a -->'
    )


def test_a_long_gap_in_a_text_is_read_in_one_pass() -> None:
    # A search that begins anew at each space takes minutes for so many.
    page = Page("<p>a" + " \n" * 150_000 + "b</p>")
    assert page.texts == ["a b"]


def test_a_declaration_that_the_parser_refuses_is_the_fault_of_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("expected name token")

    # Newer versions of Python accept any declaration.
    monkeypatch.setattr("gateway.text.markup.HTMLParser.close", refuse)
    with pytest.raises(ClientFault) as refused:
        Page("<![ >")
    assert refused.value.hint


PIECES = st.sampled_from(
    ["<p>", "</p>", "<b class='x'>", "</b>", "<br/>", "<code>", "</code>", "<script>", "</script>"]
    + ["<!-- c -->", "<!x>", "<?pi?>", "<", ">", "&amp;", "&#x5b57;", "&", "\n", " ", "word", "字"]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_nothing_but_the_texts_of_a_page_is_changed(source: str) -> None:
    page = Page(source)
    marks = [f"\ue000{n}\ue001" for n in range(len(page.texts))]
    filled = page.fill(marks)
    rest = source
    for markup in page._markup:
        assert markup in rest
        rest = rest[rest.index(markup) + len(markup) :]
    assert all(mark in filled for mark in marks)
