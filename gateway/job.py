"""Jobs of translation and recognition, and the results of engines and recognisers.

Owns: the types shared by the core, which decides what to translate or to recognise, and the engines
and recognisers, which do it. Must not know: rooms, sockets, or how any engine works.
"""

from __future__ import annotations

import enum

import msgspec


class Priority(enum.IntEnum):
    """Order of jobs in the scheduler: a lower value runs earlier.

    Captions that a reader waits for come before those that only improve what is shown.
    """

    FINAL = 0
    PARTIAL = 1
    BACKFILL = 2


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The translation of one source text into one target language."""

    id: str
    """Unique in this process. `Engine.abort` takes it."""
    text: str
    """The whole source so far, in Unicode normalisation form NFC."""
    source: str
    """Canonical BCP 47 tag of ``text``."""
    target: str
    """Canonical BCP 47 tag of the output."""
    room: str = ""
    """Key of fairness in the scheduler. Engines with several replicas of a model give the jobs of
    one room and target to the same replica. Empty: the job belongs to no room."""
    tenant: str = ""
    """Key of fairness in the scheduler. Engines ignore it."""
    utterance: str = ""
    """Id of the utterance in its room. Jobs of one utterance share the step into a pivot language;
    a job without an id shares nothing."""
    steps: int = 1
    """Number of translations that the job takes: 2 through a pivot language. For the scheduler."""
    partial: bool = False
    """The source is still growing, so the model should not invent its end."""
    prefix: str = ""
    """Target text that the output continues. Chunks do not repeat it."""
    prefix_ids: tuple[int, ...] = ()
    """Token ids of an earlier output of this engine that begins with ``prefix`` and continues with
    ``draft``. The engine uses those that spell the two, and encodes the rest itself."""
    draft: str = ""
    """Target text that the output is likely to begin with, after ``prefix``: the last translation
    of the same utterance. An engine may check it in one pass instead of decoding it again."""
    draft_bias: float = 0.0
    """Number that is added to the probability of the next token of ``draft``, for as long as the
    output follows it. With 0 the draft does not change the output."""
    needed: int = 0
    """Number of characters of the output that are needed. An engine may end the output once it has
    as many. 0: all of them."""
    search: bool = False
    """An engine that has time may search for a better output than the one that it would stream. It
    then sends the output whole, and ignores the draft."""
    topic: str = ""
    """Description of the conversation, written by the people in the room."""
    context: tuple[tuple[str, str], ...] = ()
    """Earlier (source, target) pairs of the conversation, oldest first."""
    glossary: tuple[tuple[str, str], ...] = ()
    """(term, translation) pairs whose term occurs in ``text``."""
    style: str | None = None
    """Style such as ``formal``. Used if the model's profile knows it."""
    priority: Priority = Priority.FINAL
    attempt: int = 1
    """2 after a guard rejected the first output; the profile then samples differently."""


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """A piece of a translation. The ``text`` of all chunks, joined in order, is the output."""

    text: str
    tokens: int = 1
    """Number of tokens that the model decoded, without those of ``accepted``; 0 if the engine
    cannot know it."""
    reset: bool = False
    """All earlier chunks are void, because a second attempt begins."""
    flags: tuple[str, ...] = ()
    """Doubts about the whole output, such as a missing number. Only the last chunk has them. It may
    have no text."""
    ids: tuple[int, ...] = ()
    """Token ids, from engines in this process only. Those of all chunks together spell the job's
    forced prefix and the output; the first chunk has the ids of the prefix. A chunk's own ids need
    not spell its own text."""
    drafted: int = 0
    """Number of tokens of `Job.draft` that the engine has checked."""
    accepted: int = 0
    """Number of those that became output."""
    p: float = 1.0
    """Probability that the output is right, by the model's own judgement: the product of all its
    chunks. 1 if the engine does not know it."""


def merged(first: Chunk, second: Chunk) -> Chunk:
    """Return one chunk with the same meaning as two consecutive ones."""
    # The text of the first chunk is void after a reset, but its tokens have been paid for.
    before = Chunk("") if second.reset else first
    return Chunk(
        before.text + second.text,
        first.tokens + second.tokens,
        before.reset or second.reset,
        before.flags + second.flags,
        before.ids + second.ids,
        first.drafted + second.drafted,
        first.accepted + second.accepted,
        before.p * second.p,
    )


SAMPLE_RATE = 16_000
"""Samples in a second of the audio of `RecognitionJob`."""


class Word(msgspec.Struct, frozen=True, gc=False):
    """A recognised word."""

    text: str
    """Spelling of the model, with the space before it if the language puts one there."""
    start: float
    """Beginning of the word, in seconds from the beginning of `RecognitionJob.audio`."""
    end: float
    """End of the word, in seconds from the beginning of `RecognitionJob.audio`."""
    probability: float = 1.0
    """Confidence of the model, from 0 to 1. It is 1 from a recogniser that has none."""


class RecognitionJob(msgspec.Struct, frozen=True, kw_only=True):
    """The recognition of a few seconds of one person's speech."""

    id: str
    """Unique in this process."""
    audio: bytes
    """PCM, signed 16 bit, little endian, mono, `SAMPLE_RATE` samples a second."""
    langs: tuple[str, ...] = ()
    """Canonical BCP 47 tags of the languages that may be spoken. One: the language is known.
    Empty: any language that the recogniser knows."""
    prompt: str = ""
    """Text that was spoken before ``audio``, or a description of the conversation."""
    hotwords: tuple[str, ...] = ()
    """Names and terms that are likely to be spoken."""
    room: str = ""
    """Key of fairness. Recognisers ignore it."""
    tenant: str = ""
    """Key of fairness. Recognisers ignore it."""
    final: bool = False
    """The speech has ended, so the result is shown for good."""


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """The words of a `RecognitionJob`, and the doubts of the model. The defaults mean no doubt."""

    words: tuple[Word, ...] = ()
    lang: str = ""
    """Canonical BCP 47 tag of the words. Empty if the recogniser does not know it."""
    lang_probability: float = 1.0
    """Confidence in ``lang``, from 0 to 1."""
    no_speech: float = 0.0
    """Probability that ``audio`` has no speech, from 0 to 1."""
    log_probability: float = 0.0
    """Average logarithm of the probability of a token: 0 is certain, below -1 is doubtful."""
    compression: float = 1.0
    """Length of the text through its length after zlib. Repetitions make it large: above 2.4 is
    doubtful."""

    @property
    def text(self) -> str:
        """All words, as they are written."""
        return "".join(word.text for word in self.words).strip()
