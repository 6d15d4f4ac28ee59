"""What `/metrics` says: names and numbers.

Owns: reading the text format as far as a report needs it. Must not know: how it was fetched.
"""

from __future__ import annotations

import re

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{.*\})?[ \t]+(\S+)")


def parse(text: str) -> dict[str, float]:
    """The numbers by name, summed over labels, without the buckets of histograms."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None or match[1].endswith("_bucket"):
            continue
        try:
            value = float(match[2])
        except ValueError:
            continue
        found[match[1]] = found.get(match[1], 0.0) + value
    return found


def step(before: dict[str, float], after: dict[str, float], seconds: float) -> float | None:
    """Seconds that a job waited for each of its tokens, between two scrapes; None if there were
    none: jobs at work, over tokens a second."""
    name, running = "gateway_tokens_total", "gateway_jobs_running"
    tokens = after.get(name, 0.0) - before.get(name, 0.0)
    if tokens <= 0:
        return None
    return (after.get(running, 0.0) + before.get(running, 0.0)) / 2 * seconds / tokens
