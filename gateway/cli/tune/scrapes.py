"""The files of scrapes that ``gateway tune --metrics`` reads.

Owns: the two forms of a file and their faults. Must not know: networks, what the numbers mean.

Two forms are read. Expositions one after the other, each behind a line with its time in seconds::

    # at 1732250000
    gateway_utterances_total 17.0
    ...

This command writes them: ``(date +'# at %s'; curl -s HOST/metrics) >> history.txt``. The other form
is the answer of Prometheus to ``query_range``, with its matrix of series.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from gateway.cli.tune.model.history import NAMES, Values, number

_AT = re.compile(r"^#[ \t]*at[ \t]+(\d+(?:\.\d*)?)[ \t]*$", re.MULTILINE)

Row = tuple[float, str, dict[str, str], float]
"""Time, name, labels and value of one sample."""


def parse(text: str) -> list[tuple[float, Values]]:
    """Return the scrapes of a history in the order of time. Raises `ValueError` with a sentence."""
    found: dict[float, Values] = {}
    for at, name, labels, value in _matrix(text) if text.lstrip()[:1] == "{" else _scrapes(text):
        values = found.setdefault(at, {})
        if name in NAMES and math.isfinite(value):
            values[name, frozenset(labels.items())] = value
    return sorted(found.items())


def _scrapes(text: str) -> Iterator[Row]:
    before, *parts = _AT.split(text)
    if before.strip():
        raise ValueError(
            "This history has no times: each scrape needs a line before it, `# at SECONDS`."
        )
    for at, scrape in zip(parts[::2], parts[1::2], strict=True):
        yield float(at), "", {}, 0.0  # so that an empty scrape counts as one
        # Other metrics are most of a scrape; parsing them would take most of the time.
        lines = "\n".join(line for line in scrape.splitlines() if line.startswith(NAMES))
        for family in text_string_to_metric_families(f"{lines}\n"):
            for name, labels, value, *_ in family.samples:
                yield float(at), name, labels, value


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Data(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    data: _Data


def _matrix(text: str) -> Iterator[Row]:
    try:
        found = msgspec.json.decode(text, type=_Answer).data.result
    except msgspec.DecodeError as exc:
        raise ValueError(f"This is no answer of Prometheus to query_range: {exc}.") from exc
    for one in found:
        name = one.metric.pop("__name__", "")
        for at, value in one.values:
            yield at, name, one.metric, number(value)
