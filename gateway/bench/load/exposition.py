"""What `/metrics` says: names and numbers.

Owns: what of it a report needs, over all labels and workers. Must not know: how it was fetched.
"""

from __future__ import annotations

from gateway.scrape import UP, samples

MOST = ("_usage", "_largest_bytes", "_longest_seconds", "_coalesce_seconds")
"""Ends of names of which several workers have a largest and no sum."""


def parse(text: str) -> dict[str, float] | None:
    """The numbers by name, summed over labels, without the buckets of histograms; None where a
    worker gave no answer: its counters would be seen to fall, and then to leap."""
    found: dict[str, float] = {}
    for name, _, value in samples(text):
        if name == UP and not value:
            return None
        if name.endswith("_bucket"):
            continue
        before = found.get(name, 0.0)
        found[name] = max(before, value) if name.endswith(MOST) else before + value
    return found


def step(before: dict[str, float], after: dict[str, float], seconds: float) -> float | None:
    """Seconds that a job waited for each of its tokens, between two scrapes; None if there were
    none: jobs at work, over tokens a second."""
    name, running = "gateway_tokens_total", "gateway_jobs_running"
    tokens = after.get(name, 0.0) - before.get(name, 0.0)
    if tokens <= 0:
        return None
    return (after.get(running, 0.0) + before.get(running, 0.0)) / 2 * seconds / tokens
