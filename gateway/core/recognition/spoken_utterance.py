"""One utterance of a speaker, as it is heard.

Owns: how far its audio was recognised, and the text that was reported of it. Must not know: when
its audio is recognised (`gateway.core.recognition.speech_recognition`).
"""

from __future__ import annotations

import msgspec

from gateway.core.recognition.hypotheses import Hypotheses
from gateway.core.recognition.language_choice import LanguageChoice
from gateway.job import RecognitionJob, Word


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
    """Consequences of an event: a job to give to a recogniser, and what was heard.

    The job takes the place of the one before, which is not to be answered any more.
    """

    job: RecognitionJob | None = None
    heard: tuple[Heard, ...] = ()


class SpokenUtterance:
    """An utterance as it is heard. Positions are numbers of frames.

    :param begin: first frame of its audio
    """

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
