"""Guards against words that nobody spoke.

Owns: which recognised words are believed. Must not know: earlier hypotheses, what is shown.

Whisper invents text where there is none: the ends of the films that it was trained on, one phrase
again and again, or more words than a mouth can speak (Koenecke et al. 2024,
https://arxiv.org/abs/2402.08021; Baranski et al. 2025, https://arxiv.org/abs/2501.11378).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gateway.core.recognition.hypotheses import text_of
from gateway.job import Recognised, Word
from gateway.text import word_units
from gateway.text.word_units import CJK

_DENSE = re.compile(f"[{CJK}]")

NO_SPEECH, DOUBTFUL = 0.6, -1.0
"""Probability of no speech, and average log probability, that together void a result. They are
Whisper's own thresholds."""

HOPELESS = -1.6
"""Average log probability below which a result is void in any case."""

REPETITIVE = 2.4
"""Compression ratio above which repetitions are looked for. Whisper's own threshold."""

FASTEST, SLACK = 30.0, 15
"""Letters that can be spoken in a second of voice, and letters for which voice is too short to
tell. Fast speech has 20; a letter of Chinese or Japanese counts as three."""

LATE = 0.6
"""Seconds behind the last voice after which no word begins."""

PHRASE, COPIES = 10, 3
"""Length in words of the longest phrase whose repetition is found, and how often in a row it may be
said."""

INSTANT = 0.03
"""Seconds below which a word takes no time. Whisper's times are multiples of 0.02 s."""

PHANTOMS = frozenset(
    (
        "amara.org",
        "请不吝点赞",
        "點贊",
        "字幕by",
        "字幕志愿者",
        "ご視聴ありがとうございました",
        "チャンネル登録",
        "thanks for watching",
        "thank you for watching",
        "subtitles by",
        "transcription by castingwords",
        "untertitelung des zdf",
        "untertitel der",
        "untertitel im auftrag",
        "sous-titres réalisés",
        "sous-titrage st",
        "merci d'avoir regardé",
        "subtítulos realizados por",
        "subtítulos por la comunidad",
        "gracias por ver el video",
    )
)
"""Texts that films end with. A short result that has one is void."""

PHANTOM_LENGTH = 60
"""Letters of a short result."""

WEAK = frozenset(("you", "thank you", "thanks", "bye", "okay", "so", "the", "i'm sorry", "oh"))
"""Texts that people say, and that Whisper also hears in noise. They need clear voice."""

CLEAR_VOICE, CLEAR = 0.35, -0.7
"""Seconds of voice, and average log probability, that make voice clear."""


def credible(result: Recognised, voice: float, last_voice: float) -> tuple[Word, ...]:
    """Return the words of a result that were probably spoken, none if it is void, in audio with so
    many seconds of voice. The last voice ended at ``last_voice``.
    """
    if result.no_speech > NO_SPEECH and result.log_probability < DOUBTFUL:
        return ()
    if result.log_probability < HOPELESS:
        return ()
    words = tuple(word for word in result.words if word.start <= last_voice + LATE)
    # Before the length is checked, since copies that take no time would count as fast speech.
    words = without_echoes(words)
    if result.compression > REPETITIVE:
        words = without_repetitions(words)
    text = text_of(words)
    plain = " ".join(word_units.keyed(text, spaced=True)[0])
    # Recognisers write either apostrophe.
    folded = text.casefold().replace("’", "'")
    if len(text) <= PHANTOM_LENGTH and any(phrase in folded for phrase in PHANTOMS):
        return ()
    if plain in WEAK and (voice < CLEAR_VOICE or result.log_probability < CLEAR):
        return ()
    if _length(text) > SLACK + FASTEST * voice:
        return ()
    return words if plain else ()


def without_echoes(words: Sequence[Word]) -> tuple[Word, ...]:
    """Return the words without copies of the phrase before them that take no time.

    At the end of the audio Whisper says its last words again. There is no sound to these copies, so
    a word of them begins and ends at the same moment. People who repeat themselves take time.
    """
    kept: list[Word] = []
    keys: list[str] = []
    for word in words:
        kept.append(word)
        keys.append(word_units.key(word.text))
        for length in range(1, min(PHRASE, len(keys) // 2) + 1):
            copy = kept[-length:]
            instant = any(word.end - word.start < INSTANT for word in copy)
            if instant and keys[-length:] == keys[-2 * length : -length]:
                del kept[-length:], keys[-length:]
                break
    return tuple(kept)


def without_repetitions(words: Sequence[Word]) -> tuple[Word, ...]:
    """Return the words up to a phrase that is repeated more than `COPIES` times in a row, once."""
    keys = [word_units.key(word.text) for word in words]
    for start in range(len(keys)):
        for length in range(1, PHRASE + 1):
            phrase = keys[start : start + length]
            if keys[start : start + length * (COPIES + 1)] == phrase * (COPIES + 1):
                return tuple(words[: start + length])
    return tuple(words)


def _length(text: str) -> int:
    """Return the number of letters, where one of Chinese or Japanese counts as three."""
    return sum(char.isalnum() for char in text) + 2 * len(_DENSE.findall(text))
