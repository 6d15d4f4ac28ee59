"""The log lines of a process, as text or as JSON.

Owns: the handler of the root logger, both formats, and which fields a line of JSON has. Must not
know: who logs. A call of a logger passes the fields in ``extra``; texts, names of speakers and
glossaries are none of them.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Literal

import msgspec

LogFormat = Literal["text", "json"]

FIELDS = ("session", "room", "utterance", "job")
"""Fields that a call of a logger can pass in ``extra``. Any other is left out, so that a library
cannot put a text into the log by one."""


class JsonFormatter(logging.Formatter):
    """A formatter that writes each record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Its time is UTC, in the format of RFC 3339."""
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = str(value)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def as_line(text: str) -> str:
    """Return a text for the terminal as a line of JSON, if the log of this process is JSON."""
    # A program that reads the log expects nothing else there. The line has no level that could hide
    # it.
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonFormatter):
            record = logging.LogRecord(
                "gateway.process", logging.INFO, "", 0, text.strip(), None, None
            )
            return handler.formatter.format(record) + "\n"
    return text


def formatter(form: LogFormat) -> logging.Formatter:
    """Return the formatter of a format."""
    if form == "json":
        return JsonFormatter()
    return logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")


def set_up_logs(level: str, form: LogFormat = "text") -> None:
    """Write the log of this process to standard error, unless the root logger has a handler."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(form))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    # At INFO, httpx2 logs a line for each caption.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    # It warns of each broken form, which the answer to the client says too.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
