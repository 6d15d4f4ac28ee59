"""The requests of each kind of output, from the events of a room's log.

Owns: their bodies, query parameters and headers. Must not know: when they are sent, what becomes of
them.

- ``webhook``: Standard Webhooks (https://www.standardwebhooks.com), version 1
- ``youtube``: "Closed Captions over HTTP for YouTube Live Streams"
- ``zoom``: "Using a third-party closed captioning service", Zoom's caption URL
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import httpx2 as httpx
import msgspec

from gateway.core.history.event_log import LogEntry
from gateway.protocol.messages import Final, Source
from gateway.settings.catalogue import OutputTable
from gateway.text import languages


class OutputRequest(NamedTuple):
    """A request to be sent, possibly several times.

    ``id`` is the same in every attempt; it is empty if the request is not signed.
    """

    body: bytes
    query: dict[str, str | int]
    media_type: str
    id: str = ""


def request(
    table: OutputTable, room: str, epoch: str, events: Sequence[LogEntry], number: int
) -> OutputRequest | None:
    """Return the request with some events of a log, the ``number``-th of the room; None if there is
    nothing in them for this output. The times of the events are in seconds since 1970.
    """
    if table.kind == "webhook":
        return _webhook(room, epoch, events)
    captions = [
        (logged.at, " ".join(text.split())) for logged in events if (text := _shown(table, logged))
    ]
    if not captions:
        return None
    query: dict[str, str | int] = {"seq": number}
    if table.kind == "youtube":
        lines = "".join(f"{_utc(at)}\n{text}\n" for at, text in captions)
    else:
        lines = "\n".join(text for _, text in captions)
        if table.to is not None:
            query["lang"] = languages.with_region(table.to)
    return OutputRequest(lines.encode(), query, "text/plain; charset=utf-8")


def number_url(table: OutputTable) -> httpx.URL | None:
    """Return the address that tells the number of the last request, for outputs that have one."""
    url = httpx.URL(table.url)
    return url.copy_with(path=url.path + "/seq") if table.kind == "zoom" else None


def _webhook(room: str, epoch: str, events: Sequence[LogEntry]) -> OutputRequest:
    first, last = events[0], events[-1]
    message = {
        "type": "room.events",
        "timestamp": _utc(last.at) + "Z",
        "data": {"room": room, "epoch": epoch, "events": [logged.event for logged in events]},
    }
    id = f"evt_{epoch}_{first.event.seq}_{last.event.seq}"
    return OutputRequest(msgspec.json.encode(message), {}, "application/json", id)


def _shown(table: OutputTable, one: LogEntry) -> str | None:
    """Return the text of a caption in the output's language, or of an original if it has none."""
    match one.event:
        case Source(text=text) if table.to is None:
            return text
        case Final(text=text, lang=lang) if table.to and languages.same(lang, table.to):
            return text
    return None


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
