"""Metrics as text: what it says, and that of several processes as one answer.

Owns: reading the Prometheus format; putting texts of it together, each sample marked with its
worker. Must not know: what is measured, how the texts were fetched.

Those of several processes are marked and not added up: what can be added can be added by whoever
asks (``sum without (worker)``), a counter that begins again with its process is seen to do so, and
of some gauges, such as the slowest reader's, the sum would mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

LABEL = "worker"
UP = "gateway_up"
"""1 for each worker that answered."""

_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(\{)?(.*)")
_READ = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ABOUT = re.compile(r"# (?:HELP|TYPE) (\S+).*")


class Sample(NamedTuple):
    """One line. Values of labels stand as they are written, with their backslashes."""

    name: str
    labels: frozenset[tuple[str, str]]
    value: float


def sample(line: str) -> Sample | None:
    """What a line says; None for a comment, and for what is none of the format."""
    found = _READ.fullmatch(line)
    if found is None:
        return None
    try:
        value = float(found[3])
    except ValueError:
        return None
    return Sample(found[1], frozenset(_LABEL.findall(found[2] or "")), value)


def samples(text: str) -> Iterator[Sample]:
    """All that a text says."""
    return (one for one in map(sample, text.splitlines()) if one is not None)


def merged(texts: Mapping[str, str]) -> str:
    """One text out of those of several workers, by the value of their label.

    The lines of one metric stay together, as the format wants it.
    """
    families: dict[str, tuple[list[str], list[str]]] = {}
    for worker, text in texts.items():
        about: list[str] = []
        samples: list[str] = []
        known = ""
        for line in text.splitlines():
            found = _ABOUT.fullmatch(line)
            if found is not None and found[1] != known:
                known = found[1]
                about, samples = families.setdefault(known, ([], []))
            if found is not None:
                if line not in about:
                    about.append(line)
            elif line.strip() and not line.startswith("#"):
                samples.append(_marked(line, worker))
    return "".join(
        f"{line}\n" for about, samples in families.values() for line in (*about, *samples)
    )


def _marked(line: str, worker: str) -> str:
    found = _SAMPLE.fullmatch(line)
    assert found is not None, "a line that is no comment is a sample"
    name, labels, rest = found.groups()
    if labels is None:
        return f'{name}{{{LABEL}="{worker}"}}{rest}'
    comma = "" if rest.startswith("}") else ","
    return f'{name}{{{LABEL}="{worker}"{comma}{rest}'
