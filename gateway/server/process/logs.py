"""The log lines of a process, as text or as JSON.

Owns: the handler of the root logger, both formats, and which words of a record are written. Must
not know: who logs. A call of a logger passes the fields in ``extra``; texts, names of speakers and
glossaries are none of them.

Only messages of this package are written, because it alone knows that they quote no text and no
credential. A library may log whatever it is given: headers, bodies, arguments of callbacks. From a
warning on, its record becomes a line that names the library and the line of code. Below that it is
left out. An exception is written without its message, whoever logs it.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Literal

import msgspec

from gateway.errors import redacted

LogFormat = Literal["text", "json"]

FIELDS = ("session", "room", "utterance", "job")
"""Fields that a call of a logger can pass in ``extra``. Any other is left out, so that a library
cannot put a text into the log by one."""


OWN = "gateway"
"""Logger whose messages, and those of all loggers below it, are written."""


class TextFormatter(logging.Formatter):
    """A formatter that writes each record as a line of text, and its exception below."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines."""
        return super().format(_without_foreign_words(record))


class JsonFormatter(logging.Formatter):
    """A formatter that writes each record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Its time is UTC, in the format of RFC 3339."""
        record = _without_foreign_words(record)
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


def _is_own(record: logging.LogRecord) -> bool:
    return record.name == OWN or record.name.startswith(OWN + ".")


def _without_foreign_words(record: logging.LogRecord) -> logging.LogRecord:
    """Return a copy of a record without the words of a library and of an exception."""
    # Other handlers may write the original, and may have stored an exception's text in it.
    copy = logging.makeLogRecord({**record.__dict__, "exc_text": None})
    if not _is_own(record):
        copy.msg = "its message is not logged (%s, line %d)"
        copy.args = (record.filename, record.lineno)
    if record.exc_info and record.exc_info[1] is not None:
        bare = redacted(record.exc_info[1])
        copy.exc_info = (type(bare), bare, bare.__traceback__)
    return copy


def as_line(text: str) -> str:
    """Return a text for the terminal as a line of JSON, if the log of this process is JSON."""
    # A program that reads the log expects nothing else there. The line has no level that could hide
    # it.
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonFormatter):
            record = logging.LogRecord(
                f"{OWN}.process", logging.INFO, "", 0, text.strip(), None, None
            )
            return handler.formatter.format(record) + "\n"
    return text


def handler(form: LogFormat) -> logging.Handler:
    """Return a handler that writes to standard error in a format."""
    made = logging.StreamHandler()
    made.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    made.addFilter(lambda record: _is_own(record) or record.levelno >= logging.WARNING)
    return made


def set_up_logs(level: str, form: LogFormat = "text") -> None:
    """Write the log of this process to standard error, unless the root logger has a handler."""
    logging.basicConfig(level=level.upper(), handlers=[handler(form)])
    # It warns of each broken form, which the answer to the client says too.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
