"""The texts of an HTML page, and the page with other texts in their places.

Owns: which parts of a page are text for a reader. Must not know: languages, models.

The parser is Python's own. Markup is never written anew: everything but the texts stays as it is,
character by character, so that a page with errors keeps them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import accumulate

from gateway.errors import ClientFault, ErrorCode

KEPT = frozenset(("code", "kbd", "samp", "script", "style", "textarea", "var"))
"""Elements whose content is left as it is, like that of elements with ``translate="no"``."""

_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
"""Elements without content."""

_SPACE = " \t\r\n\f"
_BLANK = re.compile(f"[{_SPACE}]+")


class Page:
    """A page of HTML, or a piece of one.

    ``texts``: its texts in order, with characters instead of references to them. A text without a
    letter counts as markup.

    Raises `ClientFault` (``bad_frame``) if it has a declaration that the parser refuses.
    """

    def __init__(self, source: str) -> None:
        self.texts: list[str] = []
        self._markup = [""]  # before, between and behind the texts
        parser = _PageParser(source)
        ends = [start for start, _, _ in parser.parts[1:]]
        for (start, is_text, lines), end in zip(parser.parts, [*ends, len(source)], strict=True):
            if is_text:
                self._add(source[start:end], lines)
            else:
                self._markup[-1] += source[start:end]

    def fill(self, texts: Sequence[str]) -> str:
        """Return the page with other texts in place of its own, in the same order."""
        parts = [self._markup[0]]
        for text, markup in zip(texts, self._markup[1:], strict=True):
            parts += html.escape(text, quote=False), markup
        return "".join(parts)

    def _add(self, raw: str, lines: bool) -> None:
        """Add a text. ``lines``: its line breaks are shown."""
        # A price or a bullet needs no translation, and models change numbers.
        if not any(map(str.isalpha, html.unescape(raw))):
            self._markup[-1] += raw
            return
        # No expression does this: it would try each space of a long gap as the end of the text.
        start = len(raw) - len(raw.lstrip(_SPACE))
        end = len(raw.rstrip(_SPACE))
        text = html.unescape(raw[start:end])
        # The outer blanks are layout: a translation must not lose or gain them.
        self._markup[-1] += raw[:start]
        self.texts.append(text if lines else _BLANK.sub(" ", text))
        self._markup.append(raw[end:])


class _PageParser(HTMLParser):
    """The parts of a page: where each begins, whether it is text, whether its lines are kept."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.parts: list[tuple[int, bool, bool]] = [(0, False, False)]
        self._lines = [0, *accumulate(len(line) + 1 for line in source.split("\n"))]
        self._kept: str | None = None  # outermost open element whose content is kept
        self._open = 0  # open elements of that name
        self._pre = 0
        # Behind the last `>` there is no markup. For each tag that never ends, the parser would
        # search to the end: two seconds for 10,000 characters.
        end = source.rfind(">") + 1
        try:
            self.feed(source[:end])
            self.close()
        except AssertionError as exc:  # as of `<![ >`, in some versions of Python
            raise ClientFault(
                ErrorCode.BAD_FRAME,
                "This is no HTML: a declaration in it has no name.",
                'Write "&lt;" for "<", or send it as text.',
            ) from exc
        if end < len(source):
            self.parts.append((end, self._kept is None, self._pre > 0))

    def handle_data(self, data: str) -> None:
        self._part(self._kept is None)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._part(False)
        self._pre += tag == "pre"
        if self._kept is None and tag not in _VOID and (tag in KEPT or _untranslated(dict(attrs))):
            self._kept = tag
        # The element ends with its own end tag, not with that of one inside it.
        self._open += tag == self._kept

    def handle_endtag(self, tag: str) -> None:
        self._part(False)
        self._pre = max(0, self._pre - (tag == "pre"))
        self._open -= tag == self._kept
        if not self._open:
            self._kept = None

    def handle_comment(self, data: str) -> None:
        self._part(False)

    def handle_decl(self, decl: str) -> None:
        self._part(False)

    def handle_pi(self, data: str) -> None:
        self._part(False)

    def unknown_decl(self, data: str) -> None:
        self._part(False)

    def _part(self, is_text: bool) -> None:
        line, column = self.getpos()
        part = (self._lines[line - 1] + column, is_text, self._pre > 0)
        # A lone `<` is reported as a text of its own.
        if part[1:] != self.parts[-1][1:]:
            self.parts.append(part)


def _untranslated(attributes: dict[str, str | None]) -> bool:
    """Tell whether an element says that it is not to be translated."""
    classes = (attributes.get("class") or "").split()
    return (attributes.get("translate") or "").lower() == "no" or "notranslate" in classes
