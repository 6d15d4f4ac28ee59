"""Client events of OpenAI's realtime transcription and translation.

Owns: their names and the fields that this gateway reads; other fields are ignored. Must not know:
what an event does. Source: the types of openai-python 3.54, ``openai/types/realtime``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gateway.errors import ClientFault, ErrorCode, bad_frame
from gateway.protocol.audio import SampleRate
from gateway.protocol.fields import Context, Term

RATE = 24_000
"""Samples per second of PCM, unless the client names another rate."""

EventId = Annotated[str, Meta(max_length=512)]


class RealtimeAudioFormat(msgspec.Struct, frozen=True):
    """The format of the audio. PCM is signed 16 bit little endian, mono."""

    type: str = "audio/pcm"
    rate: SampleRate = RATE


class TranscriptionConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """Wishes about the recognition. ``model`` is repeated in answers and has no effect.

    ``keywords`` are terms that are expected, and ``prompt`` describes the speech.
    """

    model: Annotated[str, Meta(max_length=200)] | None = None
    language: str | None = None
    languages: tuple[str, ...] | None = None
    prompt: Context | None = None
    keywords: Annotated[tuple[Term, ...], Meta(max_length=500)] | None = None


class TurnDetection(msgspec.Struct, frozen=True):
    """The detection of the end of speech. All kinds are the gateway's own."""

    type: str = "server_vad"


class InputConfig(msgspec.Struct, frozen=True):
    """The input of a session. An absent field is left as it was."""

    format: RealtimeAudioFormat | UnsetType = UNSET
    transcription: TranscriptionConfig | None | UnsetType = UNSET
    turn_detection: TurnDetection | None | UnsetType = UNSET


class OutputConfig(msgspec.Struct, frozen=True):
    """The output of a translation session: its language."""

    language: str | None = None


class AudioConfig(msgspec.Struct, frozen=True):
    """Input and output of a session."""

    input: InputConfig = InputConfig()
    output: OutputConfig = OutputConfig()


class SessionConfig(msgspec.Struct, frozen=True):
    """The configuration in ``session.update``.

    The fields after ``audio`` are those of the older ``transcription_session.update``.
    """

    audio: AudioConfig = AudioConfig()
    input_audio_format: str | UnsetType = UNSET
    input_audio_transcription: TranscriptionConfig | None | UnsetType = UNSET
    turn_detection: TurnDetection | None | UnsetType = UNSET

    @property
    def input(self) -> InputConfig:
        """The wishes about the input, in whichever form they came."""
        if self.audio.input != InputConfig():
            return self.audio.input
        kind = "audio/pcm" if self.input_audio_format == "pcm16" else self.input_audio_format
        return InputConfig(
            format=RealtimeAudioFormat(kind) if isinstance(kind, str) else UNSET,
            transcription=self.input_audio_transcription,
            turn_detection=self.turn_detection,
        )


class _ClientEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of the client's events. An error names the ``event_id`` of the event that caused it."""

    event_id: EventId | None = None


class Update(_ClientEvent, frozen=True, tag="session.update"):
    """A change of the session. Answered by ``session.updated``."""

    session: SessionConfig


class OlderUpdate(_ClientEvent, frozen=True, tag="transcription_session.update"):
    """A change of the session. Answered by ``transcription_session.updated``."""

    session: SessionConfig


class Append(_ClientEvent, frozen=True, tag="input_audio_buffer.append"):
    """A piece of audio in base64."""

    audio: bytes


class Commit(_ClientEvent, frozen=True, tag="input_audio_buffer.commit"):
    """The end of an utterance, decided by the client."""


class Clear(_ClientEvent, frozen=True, tag="input_audio_buffer.clear"):
    """A request to drop the audio that has not been transcribed."""


class SessionAppend(_ClientEvent, frozen=True, tag="session.input_audio_buffer.append"):
    """A piece of audio in base64, to be translated."""

    audio: bytes


class Close(_ClientEvent, frozen=True, tag="session.close"):
    """The end of a translation session. What was said is translated before it is closed."""


ClientEvent = Update | OlderUpdate | Append | Commit | Clear | SessionAppend | Close

_decode: Callable[[str | bytes], ClientEvent] = msgspec.json.Decoder(ClientEvent).decode
_TYPES = frozenset(str(event.__struct_config__.tag) for event in get_args(ClientEvent))


class _EventHead(msgspec.Struct):
    """The fields that identify an event."""

    type: object = None
    event_id: object = None


_decode_head = msgspec.json.Decoder(_EventHead).decode


def decode(frame: str | bytes) -> ClientEvent:
    """Decode an event. Raises `ClientFault` (``bad_frame``, ``unknown_type``)."""
    try:
        return _decode(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        kind = _head(frame).type
        if isinstance(kind, str) and kind not in _TYPES:
            raise ClientFault(
                ErrorCode.UNKNOWN_TYPE,
                f"There is no event {kind[:64]!r} here.",
                "This gateway transcribes and translates; it does not answer.",
            ) from exc
        raise bad_frame(f"The event could not be read: {str(exc)[:200]}.") from exc


def event_id(frame: str | bytes) -> str | None:
    """Return the ``event_id`` of an event that could not be decoded or carried out, if any."""
    id = _head(frame).event_id
    return id[:512] if isinstance(id, str) else None


def _head(frame: str | bytes) -> _EventHead:
    try:
        return _decode_head(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _EventHead()


def audio_rate(format: RealtimeAudioFormat) -> int:
    """Return the rate of a format. Raises `ClientFault` (``audio_unsupported``)."""
    if format.type != "audio/pcm":
        raise ClientFault(
            ErrorCode.AUDIO_UNSUPPORTED,
            f"The format {format.type[:32]!r} is not served.",
            'Send "audio/pcm": 16 bit, mono, 24000 samples a second.',
        )
    # Rates that the gateway does not read are refused by the session itself.
    return format.rate
