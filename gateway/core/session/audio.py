"""The audio that one socket sends.

Owns: which frames are accepted, and the errors of the others. Must not know: sockets, how audio is
decoded and recognised, what becomes of a text in a room.

Bounds: `Limits.audio_rate` and `Limits.audio_burst` seconds of audio; as many seconds that are not
decoded, and `SECOND_BYTES` for each of them; one stream that is heard, and one before it that comes
to its end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gateway.core.base.validation import AUTO, unsupported
from gateway.core.session.audio_format import chosen
from gateway.core.session.audio_stream import AudioStream, SpeechService
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits, TokenBucket
from gateway.protocol.audio import NONE, Audio
from gateway.text import languages

if TYPE_CHECKING:
    from gateway.core.session.session import Session

LEAST_S = 0.002
"""Seconds of audio that the smallest frame counts as. A frame of a browser has 2.7 ms."""

BURST_SHARE = 0.25
"""Share of the burst that a client without a pace may use. A frame fits into the rest."""
AGAIN_S = 0.1
"""Seconds after which is asked again whether a client may send more."""
SECOND_BYTES = 160_000
"""Memory that a second of undecoded audio may take: 48,000 samples in the smallest frames."""


class AudioInput:
    """The audio of a socket that has sent ``audio``."""

    def __init__(
        self, session: Session, service: SpeechService | None, limits: Limits, now: float
    ) -> None:
        self._session = session
        self._service = service
        self._limits = limits
        self._bucket = TokenBucket(limits.audio_rate, limits.audio_burst, now)
        self._stream: AudioStream | None = None  # that frames belong to
        self._ending: AudioStream | None = None  # the one before, of which the rest is heard
        self._dropping: ErrorCode | None = None  # why frames are dropped, as the client was told

    @property
    def idle(self) -> bool:
        """True if nothing more will be heard."""
        return not self._streams()

    def change(self, message: Audio, now: float) -> None:
        """Begin a stream, or end the one that there is and answer when all of it was heard. Raises
        `ClientFault` (``audio_off`` if there is none to end).
        """
        if message.codec != NONE:
            spoken = self._session.spoken
            tags = spoken.stated if message.from_ is None else message.from_
            # A recogniser needs no detector of text for `auto`.
            self._begin(message, tags if tags == AUTO else spoken.normalised(tags), now)
        elif self._stream is None:
            raise ClientFault(ErrorCode.AUDIO_OFF, "There is no audio to end.")
        else:
            self.finish(message.ref)

    def finish(self, *answers: str | None) -> None:
        """End the audio, if there is any, and let the rest of it be heard. Then requests with these
        ``ref`` are answered.
        """
        if self._stream is None:
            return
        if self._ending is not None:  # a client that changes the format all the time
            answers = (*self._ending.give_up(), *answers)
        self._ending, self._stream = self._stream, None
        self._ending.finish(answers)

    def delay(self, now: float) -> float:
        """Return the seconds until more is to be read from a client that keeps no pace; 0: none.
        Then it is asked again. New audio waits until all before its end was heard.
        """
        stream = self._stream
        if stream is None:
            return 0.0 if self.idle else AGAIN_S
        burst = self._limits.audio_burst * BURST_SHARE
        if stream.full or stream.pipeline.waiting > burst:
            return AGAIN_S
        return max(0.0, self._bucket.used(now) - burst) / self._limits.audio_rate

    def receive(self, frame: bytes, now: float) -> None:
        """Accept a frame, or drop it and say why, once for frames dropped in a row."""
        try:
            self._accept(frame, now)
        except ClientFault as fault:
            # A client that sends fifty frames a second needs one error, not fifty.
            if fault.code is not self._dropping:
                self._dropping = fault.code
                self._session.report(fault, now)
        else:
            self._dropping = None

    def cancel(self, id: str) -> None:
        """Drop the present utterance if ``id`` is its id."""
        for stream in self._streams():
            stream.cancel(id)

    def close(self, now: float, *, lost: bool) -> None:
        """Stop all work at once. Of a ``lost`` socket, what was heard until then is complete."""
        for stream in self._streams():
            if lost:
                stream.cut(now)
            stream.close()
        self._stream = self._ending = None

    def _streams(self) -> list[AudioStream]:
        streams = (self._ending, self._stream)
        return [stream for stream in streams if stream is not None and not stream.over]

    def _begin(self, message: Audio, tags: str, now: float) -> None:
        """Begin a stream, and let the one before come to its end.

        Raises `ClientFault` (``audio_unavailable``, ``audio_unsupported``, ``lang_unsupported``,
        ``engine_unavailable``); then frames are dropped until the next call.
        """
        # The audio before is ended even if this request fails: its format may not be right any
        # more.
        self.finish()
        self._dropping = None
        if self._service is None:
            raise no_recogniser()
        info = self._service.info()
        format = chosen(message, info.codecs, info.rates)
        langs = info.languages if tags == AUTO else tuple(tags.split(","))
        if info.languages:
            known = {lang: languages.match(lang, info.languages) for lang in langs}
            strange = [lang for lang, match in known.items() if match is None]
            if strange:
                raise unsupported(strange, info.languages)
            langs = tuple(match for match in known.values() if match is not None)
        # Opened last, because a stream counts for the recogniser.
        stream = AudioStream(self._service, self._session, format, langs, tags=tags, t0=message.t0)
        self._stream = stream
        self._session.outbox.send(stream.state(message.ref), now)

    def _accept(self, frame: bytes, now: float) -> None:
        stream = self._stream
        if stream is None or stream.over:
            raise ClientFault(
                ErrorCode.AUDIO_OFF,
                "A frame of audio came without an accepted `audio` before it.",
                'Send {"type":"audio","codec":"pcm_s16le","rate":16000} first.',
            )
        seconds = stream.format.seconds(frame)
        wait = self._bucket.take(now, max(seconds, LEAST_S))
        # The decoder is late only if the whole machine is, or the tenant sends a lot.
        burst = self._limits.audio_burst
        if not wait and (
            stream.pipeline.waiting > burst or stream.pipeline.held > burst * SECOND_BYTES
        ):
            wait = 1.0
        if wait:
            # Times of later words stay those of the speaker, although this audio is missing.
            stream.skip(seconds)
            raise ClientFault(
                ErrorCode.AUDIO_TOO_FAST,
                f"More than {self._limits.audio_rate:g} seconds of audio per second, or more than "
                f"{self._limits.audio_burst:g} at once; it is dropped.",
                retry_ms=math.ceil(wait * 1000),
            )
        stream.add_frame(frame, seconds, now)


def no_recogniser() -> ClientFault:
    """Return the fault (``audio_unavailable``) of audio that a gateway takes none of."""
    return ClientFault(
        ErrorCode.AUDIO_UNAVAILABLE,
        "This gateway does not recognise speech.",
        "Send text with `say`, or start the gateway with --recogniser.",
    )
