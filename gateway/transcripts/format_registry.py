"""The text formats of transcripts by their names: those of this package and of others.

Owns: where a format is found. Must not know: how one is written, HTTP.

The formats of other packages are entry points of the group `POINTS`. An entry point has the name of
the format, which is also the end of a file's name, and refers to a `TextFormat`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata
from typing import Final, NamedTuple

from gateway.transcripts import formats
from gateway.transcripts.formats import Choice, Format
from gateway.transcripts.transcript import Transcript

log = logging.getLogger("gateway.transcripts")

POINTS: Final = "caption_gateway.formats"
"""Group of entry points."""


class TextFormat(NamedTuple):
    """A format of transcripts.

    ``media_type``: value of ``Content-Type``. Browsers run the scripts of ``text/html``, so whoever
    writes it has to escape all texts

    ``write``: function of a transcript and of the languages that are shown together. It runs in a
    thread and returns the whole file
    """

    media_type: str
    write: Callable[[Transcript, Choice], str]


OWN: Final[Mapping[str, TextFormat]] = {
    Format.VTT: TextFormat("text/vtt; charset=utf-8", formats.vtt),
    Format.SRT: TextFormat("application/x-subrip; charset=utf-8", formats.srt),
    Format.TXT: TextFormat("text/plain; charset=utf-8", formats.txt),
}
"""Formats of this package. No other package replaces them."""


@cache
def text_formats() -> Mapping[str, TextFormat]:
    """Return all formats by their names. One that cannot be imported is logged and left out."""
    found: dict[str, TextFormat] = {**OWN}
    for point in metadata.entry_points(group=POINTS):
        try:
            format = point.load()
        except (ImportError, AttributeError) as exc:  # the other formats remain
            log.error("the format %s (%s) cannot be imported: %r", point.name, point.value, exc)
            continue
        if isinstance(format, TextFormat):
            found.setdefault(point.name, format)
        else:
            log.error("the format %s (%s) is no TextFormat", point.name, point.value)
    return found
