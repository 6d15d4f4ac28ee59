"""The audio of a socket from one ``audio`` message to the next.

Owns: the utterances that are heard in it, their ids and times, and what becomes of a text that the
room refuses. Must not know: frames of a socket, limits, codecs, recognisers, tasks.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from gateway.core.base.validation import AUTO, clean
from gateway.core.recognition.speech_recognition import SpeechRecognition
from gateway.core.recognition.spoken_utterance import Decisions, Heard
from gateway.core.session.audio_format import AudioFormat
from gateway.errors import ClientFault, ErrorCode
from gateway.job import Recognised, RecognitionJob
from gateway.protocol.audio import NONE, AudioInfo, AudioState, HeardSpeech
from gateway.protocol.messages import Cancel, Say
from gateway.text import languages

if TYPE_CHECKING:
    from gateway.core.session.session import Session

WINDOW_S = 50.0
"""Seconds of audio that a client may have waiting. A stream keeps 60 (`SpeechTiming.backlog`)."""
PROGRESS_S = 5.0
"""Seconds of settled audio between two reports of progress."""
OWED = 8
"""Final texts that are kept while the room refuses them because it is busy."""
STEP_S = 0.1
"""Seconds of audio between two arrivals that are remembered, to measure delays."""


class AudioPipeline(Protocol):
    """The decoding and the recognition of one stream, done elsewhere. It calls
    `AudioStream.decoded`, `drained` and `answered`, until it is closed.
    """

    id: str
    """Unique name of the stream."""
    waiting: float
    """Seconds of audio that are not decoded."""
    held: int
    """Memory of the audio that is not decoded, in bytes."""

    @property
    def busy(self) -> bool:
        """True while audio is decoded or recognised."""

    def add_frame(self, frame: bytes, seconds: float) -> None:
        """Decode a frame that takes ``seconds``."""

    def finish(self) -> None:
        """Call `AudioStream.drained` after the last frame."""

    def recognise(self, job: RecognitionJob) -> None:
        """Give a job to the recogniser, in place of the one before, if that is not done."""

    def abort(self) -> None:
        """Stop the job, if there is one. Its end is not reported."""

    def measure(self, words: int, delay: float) -> None:
        """Count a final text, whose last word arrived as audio ``delay`` seconds before."""

    def lose(self, seconds: float) -> None:
        """Count speech that was not recognised."""

    def close(self) -> None:
        """Stop all work, and let go of the stream. Idempotent."""


class SpeechService(Protocol):
    """The recogniser and the decoders, as sessions see them."""

    def info(self) -> AudioInfo:
        """Return the codecs, languages and limits that a client is told."""

    def open(self, stream: AudioStream) -> AudioPipeline:
        """Return the pipeline of a new stream. Raises `ClientFault` (``engine_unavailable``)."""


class AudioStream:
    """Speech in one format, from its first sample on.

    :param langs: languages that may be spoken, as the recogniser has them; empty for any
    :param tags: the same as the client named them
    :param t0: the speaker's own clock at the first sample, in seconds

    Raises `ClientFault` (``engine_unavailable``).
    """

    def __init__(
        self,
        service: SpeechService,
        session: Session,
        format: AudioFormat,
        langs: tuple[str, ...],
        *,
        tags: str,
        t0: float,
    ) -> None:
        self.format = format
        self.tags = tags
        self.over = False
        """True if nothing more will be heard."""
        self.room, self.tenant = session.room.name, session.permissions.tenant
        self._session = session
        self.pipeline = service.open(self)
        self._speech = SpeechRecognition(
            self.pipeline.id, langs, room=self.room, tenant=self.tenant
        )
        self._received = 0.0  # seconds of audio that were accepted
        self._arrivals: deque[tuple[float, float]] = deque()  # of audio: its end, and when
        self._offsets = deque([(0.0, t0)])  # from which second of audio on which clock
        self._told = 0.0
        self._lost = 0.0  # seconds of speech that was not recognised, as the client is told
        self._utterance, self._rev, self._t0 = 0, 0, 0.0  # of the last utterance
        self._growing: str | None = None  # its id
        self._owed: deque[Say] = deque()
        self._ending = False
        self._answers: tuple[str | None, ...] = ()  # ``ref`` of the requests to end

    @property
    def full(self) -> bool:
        """True while more audio has to wait until some of it is recognised."""
        # Without work in progress nothing but more audio leads on.
        late = self._received - self._speech.settled > WINDOW_S
        return late and self.pipeline.busy

    def state(self, ref: str | None = None) -> AudioState:
        """Return the event that tells a client how far the audio is heard."""
        return AudioState(
            codec=NONE if self.over else self.format.codec,
            rate=self.format.rate,
            from_=self.tags,
            seconds=round(self._speech.settled, 3),
            lost=round(self._lost, 3),
            ref=ref,
        )

    # --- audio ------------------------------------------------------------------------------------

    def add_frame(self, frame: bytes, seconds: float, now: float) -> None:
        """Accept a frame."""
        self._received += seconds
        # One entry for each frame of 2.7 ms would be more than the measurement is worth.
        if not self._arrivals or self._received - self._arrivals[-1][0] >= STEP_S:
            self._arrivals.append((self._received, now))
        self.pipeline.add_frame(frame, seconds)

    def skip(self, seconds: float) -> None:
        """Let time pass over audio that was dropped."""
        begin, clock = self._offsets[-1]
        # Frames dropped in a row make one gap.
        if begin == self._received:
            self._offsets[-1] = (begin, clock + seconds)
        else:
            self._offsets.append((self._received, clock + seconds))

    def finish(self, answers: tuple[str | None, ...]) -> None:
        """Accept no more frames, and hear the rest. Then the requests with these ``ref`` are
        answered.
        """
        self._answers, self._ending = answers, True
        self.pipeline.finish()

    def give_up(self) -> tuple[str | None, ...]:
        """Stop all work, and return the requests to end that are not answered."""
        answers, self._answers = self._answers, ()
        self.close()
        return answers

    def cancel(self, id: str) -> None:
        """Drop the present utterance if ``id`` is its id. The room is told by the caller."""
        if id == self._growing:
            self._growing = None
            self._speech.reset()
            self.pipeline.abort()

    def cut(self, now: float) -> None:
        """End every utterance with the words that were heard: the socket is lost."""
        # First, because a job that ends now must not be asked for again.
        self.close()
        for heard in self._speech.stop().heard:
            self._say(heard, now)
        for say in self._owed:
            self._offer(say, now)

    def close(self) -> None:
        """Stop all work; nobody is interested in later speech."""
        self.over = True
        self.pipeline.close()

    def abandon(self, now: float) -> None:
        """Stop all work after a fault of the gateway, and tell the client."""
        fault = ClientFault(
            ErrorCode.INTERNAL, "The audio could not be heard.", "Send `audio` again."
        )
        # Requests that wait for the end are answered, and `bye` goes on.
        for ref in self.give_up() or (None,):
            self._session.report(fault, now, ref=ref)
        self._session.audio_ended(now)

    # --- the pipeline -----------------------------------------------------------------------------

    def decoded(self, pcm: bytes, voice: list[float], now: float) -> None:
        """Take decoded audio.

        The parameters are those of `SpeechRecognition.add_audio`.
        """
        if not self.over:
            speech, context = self._speech, self._session.room.translation_context
            # At every call, since the settings of the room may have changed.
            speech.prompt, speech.hotwords = context.hints()
            self._act(speech.add_audio(pcm, voice), now)

    def broken(self, now: float) -> None:
        """Note that a frame could not be decoded."""
        fault = ClientFault(
            ErrorCode.AUDIO_BROKEN,
            f"A frame is no audio in the codec {self.format.codec}.",
            "It counts as silence.",
        )
        self._session.report(fault, now)

    def drained(self, now: float) -> None:
        """Note that the last frame was decoded."""
        if not self.over:
            self._act(self._speech.finish_speech(), now)

    def answered(self, result: Recognised | None, now: float) -> None:
        """Take the result of the job; None if it has failed."""
        if not self.over:
            speech = self._speech
            self._act(speech.failed() if result is None else speech.result(result), now)

    def retry(self, now: float) -> None:
        """Say again the final texts that the room had no time for."""
        # So many and no more: a text that is refused again goes back to the end of the queue.
        for _ in range(len(self._owed)):
            self._offer(self._owed.popleft(), now)
        self._end_if_heard(now)

    # --- recognised text --------------------------------------------------------------------------

    def _act(self, decisions: Decisions, now: float) -> None:
        for heard in decisions.heard:
            self._say(heard, now)
        if decisions.job is not None:
            self.pipeline.recognise(decisions.job)
        settled = self._speech.settled
        while len(self._offsets) > 1 and self._offsets[1][0] <= settled:
            self._offsets.popleft()
        while self._arrivals and self._arrivals[0][0] < settled:
            self._arrivals.popleft()
        lost = self._speech.lost - self._lost
        if lost:
            self._lost = self._speech.lost
            self.pipeline.lose(lost)
        if lost or (settled - self._told >= PROGRESS_S and not self._ending):
            self._told = settled
            self._session.outbox.send(self.state(), now)
        self._end_if_heard(now)

    def _end_if_heard(self, now: float) -> None:
        """End the stream once everything was heard and said."""
        if self.over or not self._ending or self.pipeline.waiting:
            return
        if self._speech.idle and not self._owed:
            for ref in self.give_up():
                self._session.outbox.send(self.state(ref), now)
            self._session.audio_ended(now)

    def _say(self, heard: Heard, now: float) -> None:
        if heard.utterance != self._utterance:
            self._utterance, self._rev = heard.utterance, 0
        id = f"{self.pipeline.id}-{heard.utterance}"
        self._growing = None if heard.final else id
        if heard.final:
            # Only final texts: growing ones are shown before their last word is complete.
            self.pipeline.measure(len(heard.words), self._delay(heard.t1, now))
        text = clean(heard.text)
        if not text:
            # A text that nobody has seen needs no cancel.
            if heard.final and self._rev:
                self._session.room.cancel(self._session.member, Cancel(id=id), now)
            return
        self._rev += 1
        try:
            lang = self._session.spoken.of(text, self._tag(heard.lang))
        except ClientFault as fault:
            # The language of growing text may still change, so it is no fault yet.
            if heard.final:
                self._session.report(fault, now, id=id)
            return
        if self._rev == 1:
            self._t0 = self._clock(heard.t0)
        rev, t0, t1, final = self._rev, self._t0, self._clock(heard.t1), heard.final
        shown = HeardSpeech(id=id, rev=rev, lang=lang, text=text, t0=t0, t1=t1, final=final)
        self._session.outbox.send(shown, now)
        self._offer(Say(id=id, rev=rev, lang=lang, text=text, t0=t0, t1=t1, final=final), now)

    def _offer(self, say: Say, now: float) -> None:
        """Say a text in the room. A final one that the room is too busy for is kept."""
        try:
            self._session.say(say, now, heard=True)
        except ClientFault as fault:
            # The next revision of a growing text takes its place.
            if not say.final:
                return
            if fault.code is ErrorCode.BUSY and len(self._owed) < OWED and not self.over:
                self._owed.append(say)
            elif fault.code is not ErrorCode.STALE:  # else somebody has cancelled it
                self._session.report(fault, now, id=say.id)

    def _tag(self, lang: str) -> str:
        """Return a language as the client names it, or all that it names."""
        if not lang or self.tags == AUTO:
            return lang or self.tags
        return languages.match(lang, self.tags.split(",")) or lang

    def _clock(self, second: float) -> float:
        clocks = [clock for begin, clock in self._offsets if begin <= second]
        return round((clocks[-1] if clocks else self._offsets[0][1]) + second, 3)

    def _delay(self, second: float, now: float) -> float:
        while len(self._arrivals) > 1 and self._arrivals[0][0] < second:
            self._arrivals.popleft()
        return now - self._arrivals[0][1] if self._arrivals else 0.0
