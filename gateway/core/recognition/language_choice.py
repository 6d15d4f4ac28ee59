"""Choice of the language of an utterance among the languages of its speaker.

Owns: when a detected language is believed. Must not know: how a recogniser detects it.

A recogniser takes a loan word, a short answer or the first half second of any speech for another
language. So the language of the speaker's last utterance stays, unless enough has been heard and
another one is very likely or is detected twice in a row. Inside an utterance the language does not
change once it is decided.
"""

from __future__ import annotations

from gateway.text import languages

STAY = 0.5
"""Probability at which the language of the last utterance is believed at once."""
SWITCH = 0.9
"""Probability at which another language is believed at once."""
ENOUGH = 2.0
"""Seconds of audio before another language is believed, unless the utterance ends earlier."""
TWICE = 2
"""Hypotheses in a row that make a less likely language believed."""


class LanguageChoice:
    """The language of one utterance.

    :param allowed: canonical tags of the languages that the speaker may use; empty for any
    :param last: language of the speaker's last utterance; empty if there is none
    """

    __slots__ = ("_allowed", "_count", "_detected", "_last", "_probability", "decided")

    def __init__(self, allowed: tuple[str, ...], last: str) -> None:
        self._allowed = allowed
        self._last = last if _among(last, allowed) else ""
        self._detected, self._probability, self._count = "", 0.0, 0
        self.decided = allowed[0] if len(allowed) == 1 else ""

    @property
    def langs(self) -> tuple[str, ...]:
        """Languages that the next job may have."""
        return (self.decided,) if self.decided else self._allowed

    def hear(self, lang: str, probability: float, seconds: float) -> bool:
        """Note the language of a hypothesis, and tell whether the words may be shown.

        :param lang: canonical tag; empty if the recogniser does not know it
        :param probability: confidence of the recogniser in it
        :param seconds: length of the audio
        """
        if self.decided or not lang:
            return True
        if not _among(lang, self._allowed):
            self._detected = ""  # the recogniser did not heed the languages of the job
            return False
        self._count = self._count + 1 if lang == self._detected and seconds >= ENOUGH else 1
        self._detected, self._probability = lang, probability
        # Most speakers go on in their language, so little proof is needed for it, at any length.
        if self._last and languages.same(lang, self._last):
            believed = probability >= STAY
        else:
            believed = seconds >= ENOUGH and probability >= SWITCH
        if believed or self._count >= TWICE:
            self.decided = lang
        return bool(self.decided)

    def settle(self) -> bool:
        """Decide at the end of speech in a doubtful language, and tell whether the last hypothesis
        was in the language decided.

        It is the one detected if that is very likely, else that of the last utterance.
        """
        likely = self._detected if self._probability >= SWITCH else ""
        self.decided = likely or self._last or self._detected or self._allowed[0]
        return self.decided == self._detected


def _among(lang: str, allowed: tuple[str, ...]) -> bool:
    return not allowed or any(languages.same(lang, other) for other in allowed if lang)
