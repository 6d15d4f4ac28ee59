"""The text of an utterance for clients that can only append.

Owns: the part that is sent while the text still changes, and the rest at its end. Must not know:
events.
"""

from __future__ import annotations

from gateway.core.streaming.stability import Agreement, StabilityRules
from gateway.text import units

RULES = StabilityRules(agree=2, hold=1)
"""The last word of a hypothesis is held back, because the next one often completes it."""


class GrowingText:
    """The text of one utterance.

    :param lang: canonical tag of its language
    """

    __slots__ = ("_agreement", "_sent", "_spaced")

    def __init__(self, lang: str) -> None:
        self._agreement = Agreement(lang, RULES)
        self._spaced = units.spaced(lang)
        self._sent = ""

    def grow(self, text: str) -> str:
        """Take the newest text and return what two texts in a row agree on, beyond what was sent.

        Text that was sent and has changed since is not taken back: nothing more is sent until the
        newest text agrees with it again, or the utterance ends.
        """
        added = self._agreement.add(text)
        self._sent += added
        return added

    def append(self, added: str) -> str:
        """Send text that is known to be stable."""
        self._sent += added
        return added

    def finish(self, text: str) -> str:
        """Return what is missing from the final text: all behind the part that both begin with."""
        sent, whole = (units.split(one, self._spaced) for one in (self._sent, text))
        rest = "".join(whole[units.common(sent, whole) :])
        if rest and self._sent and not text.startswith(self._sent) and self._spaced:
            rest = " " + rest.lstrip()
        return rest
