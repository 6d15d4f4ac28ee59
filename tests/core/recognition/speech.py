"""Speech made up for tests: frames with and without voice, words, and a recogniser by rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from msgspec.structs import replace

from gateway.core.recognition.speech_recognition import SpeechRecognition
from gateway.core.recognition.speech_timing import FRAME_BYTES, FRAME_SECONDS, frames
from gateway.core.recognition.spoken_utterance import Decisions, Heard
from gateway.job import Recognised, RecognitionJob, Word

PER_WORD = 0.4
"""Seconds of voice for a word."""

FAILURE = None
"""The step of `Speaker.after` at which the recogniser fails."""


def words(text: str, start: float = 0.0, per_word: float = PER_WORD) -> tuple[Word, ...]:
    """Return the words of a text, one after the other from ``start`` on."""
    return tuple(
        Word(f" {word}", start + n * per_word, start + (n + 1) * per_word)
        for n, word in enumerate(text.split())
    )


def recognised(text: str, lang: str = "en", probability: float = 1.0) -> Recognised:
    return Recognised(words=words(text), lang=lang, lang_probability=probability)


class Speaker:
    """A stream, with its requests and the recognised words."""

    def __init__(self, stream: SpeechRecognition) -> None:
        self.stream = stream
        self.job: RecognitionJob | None = None
        self.jobs: list[RecognitionJob] = []
        self.heard: list[Heard] = []

    def note(self, decisions: Decisions) -> None:
        if decisions.job is not None:
            assert self.job is None or not self.job.final, "only intermediate jobs are replaced"
            self.job = decisions.job
            self.jobs.append(decisions.job)
        self.heard += decisions.heard

    def after(self, *steps: float | str | Recognised | None) -> Self:
        """Take steps one after the other, and return the speaker.

        Numbers are seconds of voice, negative ones seconds of silence. Texts and results are
        answers of the recogniser, `FAILURE` is its failure.
        """
        for step in steps:
            if step is FAILURE:
                self.fail()
            elif isinstance(step, str | Recognised):
                self.answer(step)
            elif step > 0:
                self.say(step)
            else:
                self.hush(-step)
        return self

    def reset(self) -> None:
        """Withdraw the unfinished texts. The room tells their end to those who were shown them."""
        self.stream.reset()
        if self.heard and not self.heard[-1].final:
            self.heard.append(replace(self.heard[-1], text="", words=(), final=True))

    @property
    def buffered(self) -> int:
        """Bytes of audio that are kept."""
        return len(self.stream._audio._pcm)

    def feed(self, voice: Sequence[float]) -> None:
        self.note(self.stream.add_audio(bytes(FRAME_BYTES * len(voice)), voice))

    def say(self, seconds: float) -> None:
        """Feed voice."""
        self.feed([1.0] * frames(seconds))

    def hush(self, seconds: float) -> None:
        """Feed silence."""
        self.feed([0.0] * frames(seconds))

    def answer(self, result: Recognised | str) -> None:
        """Answer the job."""
        assert self.job is not None
        self.job = None
        self.note(self.stream.result(recognised(result) if isinstance(result, str) else result))

    def fail(self) -> None:
        assert self.job is not None
        self.job = None
        self.note(self.stream.failed())

    @property
    def texts(self) -> list[str]:
        return [heard.text for heard in self.heard]

    @property
    def finals(self) -> list[str]:
        return [heard.text for heard in self.heard if heard.final]

    def length(self) -> float:
        """Return the seconds of audio of the job."""
        assert self.job is not None
        return len(self.job.audio) / FRAME_BYTES * FRAME_SECONDS


def speaker(*langs: str) -> Speaker:
    return Speaker(SpeechRecognition("s", langs, room="r", tenant="t"))
