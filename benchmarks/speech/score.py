"""Scores of recognised speech: word error rate and delays.

Owns: the definitions. Must not know: how the text came about.
"""

from __future__ import annotations

import re

from benchmarks.speech.playback import Playback
from gateway.text import word_units

NEAR = 0.6
"""Seconds by which two hypotheses may place the same word differently."""


def word_errors(reference: str, text: str) -> tuple[int, int]:
    """Return how many words were replaced, lost or invented, and how many there are.

    Capitals and punctuation do not count.
    """
    wanted, found = (re.findall(r"[\w']+", one.casefold()) for one in (reference, text))
    costs = list(range(len(found) + 1))
    for n, word in enumerate(wanted, 1):
        above, costs = costs, [n]
        for place, other in enumerate(found, 1):
            costs.append(min(above[place] + 1, costs[-1] + 1, above[place - 1] + (word != other)))
    return costs[-1], len(wanted)


def final_delays(played: Playback) -> list[float]:
    """Return the seconds from the end of the last word of each utterance to its final text."""
    return sorted(at - heard.t1 for at, heard in played.finals if heard.text)


def word_delays(played: Playback, times: int) -> list[float]:
    """Return the seconds from the end of each final word to the text that has it.

    :param times: 1 for the first text that has the word, 2 for the second one, which makes it
        agreed and lets it be translated
    """
    delays = []
    for _, final in played.finals:
        for word in final.words:
            key = word_units.key(word.text)
            seen = [
                at
                for at, heard in played.heard
                if heard.utterance == final.utterance
                and any(
                    word_units.key(other.text) == key and abs(other.start - word.start) < NEAR
                    for other in heard.words
                )
            ]
            delays.append(seen[min(times, len(seen)) - 1] - word.end)
    return sorted(delays)


def percentile(values: list[float], share: float) -> float:
    """Return the value below which a share of the sorted values is; 0 if there are none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
