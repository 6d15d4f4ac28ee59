"""One utterance of a speaker, as it is heard, and its language.

Owns: how far its audio was recognised, the text that was reported of it, and when a detected
language is believed. Must not know: when its audio is recognised, how a language is detected.

A recogniser takes a loan word, a short answer or the first half second of any speech for another
language. So the language of the speaker's last utterance stays, unless enough has been heard and
another one is very likely or is detected twice in a row.
"""

from __future__ import annotations

import msgspec

from gateway.core.recognition.hypotheses import Hypotheses
from gateway.job import RecognitionJob, Word
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
    """The language of one utterance, among ``allowed`` (empty: any), after the ``last`` one, if
    any.
    """

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
        """Note the language of a hypothesis about ``seconds`` of audio, and tell whether the words
        may be shown. The language is empty if the recogniser does not know it.
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
        """
        likely = self._detected if self._probability >= SWITCH else ""
        self.decided = likely or self._last or self._detected or self._allowed[0]
        return self.decided == self._detected


def _among(lang: str, allowed: tuple[str, ...]) -> bool:
    return not allowed or any(languages.same(lang, other) for other in allowed if lang)


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """The newest text of an utterance, from its beginning."""

    utterance: int
    """Number of the utterance in this stream, from 1 on."""
    text: str
    """Whole text. Empty in a final one: nothing was said after all, and what was shown is void."""
    lang: str
    """Canonical BCP 47 tag of the text. Empty if nobody knows it."""
    t0: float
    """Beginning of the first word, in seconds from the beginning of the audio."""
    t1: float
    """End of the last word, in seconds from the beginning of the audio."""
    final: bool
    """Nothing more is heard of this utterance."""
    words: tuple[Word, ...] = ()
    """The words of the text, with times from the beginning of the audio."""


class Decisions(msgspec.Struct, frozen=True):
    """A job for a recogniser, in place of the job before, and the texts that were heard."""

    job: RecognitionJob | None = None
    heard: tuple[Heard, ...] = ()


class SpokenUtterance:
    """An utterance as it is heard, from the frame ``begin`` on. Positions are numbers of frames."""

    def __init__(self, begin: int, language: LanguageChoice, hypotheses: Hypotheses) -> None:
        self.begin = begin  # of the audio behind the last cut
        self.end: int | None = None  # behind the last frame, once the speech has ended
        self.voice_end = begin  # behind the last frame with voice, once the speech has ended
        self.asked = begin  # end of the audio when the last job began; of its result, if it has one
        self.answered = begin  # end of the audio of the last result
        self.hypotheses = hypotheses
        self.language = language
        self.number = 0  # of the utterance, once it was heard
        self.shown: Heard | None = None
        self.tries = 0  # answers about the whole speech that were no use
