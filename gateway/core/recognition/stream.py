"""Speech of one person: the state machine between audio, a recogniser and growing captions.

Owns: which audio is recognised and when, and what is heard in consequence. Must not know: clocks,
tasks, recognisers, rooms. Time is counted in audio, so a recording that arrives faster than it was
spoken is treated alike.

Speech between two pauses is an utterance. While it grows, hypotheses of it are asked for one after
the other, each for all audio since the last cut. At a pause the words so far are asked for at once,
as if the speech had ended; if it has, this is the final text. Utterances that wait behind a late
recogniser are kept in order, in bounded memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count

import msgspec

from gateway.core.recognition.audio_buffer import AudioBuffer
from gateway.core.recognition.endpointing import Endpointer, VoiceEvent, VoiceState
from gateway.core.recognition.guards import credible
from gateway.core.recognition.hypotheses import Hypotheses, is_sentence_end, text_of
from gateway.core.recognition.language_choice import LanguageChoice
from gateway.core.recognition.timing import FRAME_BYTES, SpeechTiming, frames, seconds
from gateway.job import Recognised, RecognitionJob, Word

PROMPT = 200
"""Characters of the text before the audio that a hypothesis continues."""

TRIES = 2
"""Recognitions of the last words of an utterance, if the first one fails or is in doubt."""

MARGIN = 1.0
"""Seconds at the end of a hypothesis that are not settled: its last word may be broken off."""


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


class _Turn:
    """One utterance. Positions are numbers of frames.

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


class SpeechStream:
    """The audio of one speaker, from the beginning on.

    :param id: prefix of the ids of its jobs, unique in this process
    :param langs: canonical tags of the languages that may be spoken; empty for any
    :param room: `RecognitionJob.room` of the jobs
    :param tenant: `RecognitionJob.tenant` of the jobs
    """

    def __init__(
        self,
        id: str,
        langs: tuple[str, ...] = (),
        *,
        room: str = "",
        tenant: str = "",
        timing: SpeechTiming | None = None,
    ) -> None:
        self.id = id
        self.langs = langs
        self.room = room
        self.tenant = tenant
        self.prompt = ""
        """Description of the conversation, for `RecognitionJob.prompt`."""
        self.hotwords: tuple[str, ...] = ()
        """Names and terms, for `RecognitionJob.hotwords`."""
        self.timing = timing or SpeechTiming()
        self._endpointer = Endpointer(self.timing)
        self._audio = AudioBuffer()
        self._rest = b""  # of a frame that is not complete
        self._turns: deque[_Turn] = deque()  # only the last one may be unfinished
        self._closed = 0  # frame behind the newest utterance that has ended
        # The only job that is being done: its utterance, frames and `final`.
        self._asked: tuple[_Turn, int, int, bool] | None = None
        self._jobs, self._utterances = count(1), count(1)
        self._lang = ""  # of the last utterance
        self._said = ""  # text of the last utterance
        self._heard: list[Heard] = []
        self._lost = 0  # frames with voice that were not recognised
        self._heard_until = 0.0  # end of the last word of the last utterance

    @property
    def idle(self) -> bool:
        """True if all audio is settled: nothing more is heard of it."""
        return not self._turns

    @property
    def settled(self) -> float:
        """Seconds of audio, from its beginning, that are recognised for good or silent."""
        return seconds(self._turns[0].begin if self._turns else self._audio.end)

    @property
    def lost(self) -> float:
        """Seconds of voice that were not recognised, in utterances that have ended."""
        return seconds(self._lost)

    @property
    def buffered(self) -> int:
        """Bytes of audio that are kept."""
        return len(self._rest) + (self._audio.end - self._audio.begin) * FRAME_BYTES

    def feed(self, pcm: bytes, voice: Sequence[float]) -> Decisions:
        """Process the next audio.

        :param pcm: any number of samples in the form of `RecognitionJob.audio`
        :param voice: probability of voice in each frame that ``pcm`` completes. A frame begins
            where the last one ended, so bytes may be left over for the next call

        Raises `ValueError` if the probabilities are not as many as the frames.
        """
        pcm = self._rest + pcm if self._rest else pcm
        # Packets of audio and frames of the detector have different lengths.
        whole = len(pcm) // FRAME_BYTES
        if len(voice) != whole:
            raise ValueError(f"{whole} frames have {len(voice)} probabilities of voice")
        view = memoryview(pcm)
        for n, probability in enumerate(voice):
            self._add(view[n * FRAME_BYTES : (n + 1) * FRAME_BYTES], probability)
        self._rest = bytes(view[whole * FRAME_BYTES :])
        return self._decide()

    def result(self, recognised: Recognised) -> Decisions:
        """Take the result of the job that was asked for last."""
        turn, begin, end = self._answered()
        if turn is not None:
            self._take(turn, recognised, begin, end)
        return self._decide()

    def failed(self) -> Decisions:
        """Take notice that the job has failed."""
        turn, _, _ = self._answered()
        if turn is not None:
            # While somebody speaks, the next hypothesis covers the same audio anyway.
            turn.tries += turn.end is not None
        return self._decide()

    def end(self) -> Decisions:
        """End the audio: what is being said is complete. More audio may follow later."""
        self._end_speech()
        return self._decide()

    def stop(self) -> Decisions:
        """End all utterances at once, with the words that were heard. The job is void."""
        self._end_speech()
        self._asked = None
        while self._turns:
            self._finish(self._turns[0])
        return self._decide()

    def reset(self) -> Decisions:
        """Withdraw all unfinished utterances. The job is void, and its result is not wanted."""
        self._end_speech()
        self._asked = None
        for turn in self._turns:
            if turn.shown is not None:
                self._heard.append(
                    msgspec.structs.replace(turn.shown, text="", words=(), final=True)
                )
        self._turns.clear()
        # What a speaker withdraws must not come back through the prompt of the next job.
        self._said = ""
        return self._decide()

    # Audio

    def _add(self, frame: memoryview, probability: float) -> None:
        """Process one frame."""
        voice = self._endpointer.is_voice(probability)
        number = self._audio.end
        # Kept before anything is decided, since the speech may begin before this frame.
        self._audio.append(frame, voice)
        event = self._endpointer.add(number, voice)
        if event is VoiceEvent.BEGIN:
            self._begin(number + 1 - frames(self.timing.before))
        elif event is VoiceEvent.END:
            self._close()
        if self._audio.end - self._audio.begin > frames(self.timing.backlog):
            self._shed()
        # In a silence only what may turn out to be the beginning of the next speech is kept.
        if not self._turns:
            self._audio.drop(self._audio.end - frames(self.timing.before))

    def _begin(self, begin: int) -> None:
        """Begin an utterance with its first frame."""
        # Audio is in one utterance only, or its words would be shown twice.
        begin = max(begin, self._closed, self._audio.begin)
        language = LanguageChoice(self.langs, self._lang)
        self._turns.append(_Turn(begin, language, Hypotheses(seconds(begin))))

    def _end_speech(self) -> None:
        """End the speech that is going on, if any."""
        if self._endpointer.state is not VoiceState.SILENT:
            self._endpointer.change(VoiceEvent.END)
            self._close()

    def _close(self) -> None:
        """Note the end of the newest utterance. One that is too short was no speech."""
        turn = self._turns[-1]
        turn.end = self._closed = self._audio.end
        turn.voice_end = self._endpointer.voice_end
        # A cough that was shown as a word has to end as an utterance.
        if not turn.hypotheses.words and self._is_noise(turn):
            self._remove(turn)

    def _is_noise(self, turn: _Turn) -> bool:
        """Tell whether an utterance has too little voice for speech."""
        return self._audio.voiced(turn.begin, self._until(turn)) < frames(self.timing.least)

    def _shed(self) -> None:
        """End the oldest utterance with its present words, because too much audio waits."""
        turn = self._turns[0]
        # Read before `_finish`, which forgets the utterance.
        unfinished = turn.end is None
        self._finish(turn)
        if unfinished:  # the speech goes on as another utterance
            self._begin(self._audio.end)

    def _until(self, turn: _Turn) -> int:
        """Return the number of the frame behind the last one of an utterance so far."""
        return self._audio.end if turn.end is None else turn.end

    # Jobs

    def _decide(self) -> Decisions:
        """Return all that was heard since the last call, and the job that is due."""
        job = None
        while self._turns and (self._asked is None or self._is_late(self._asked)):
            turn = self._turns[0]
            job = self._next_job(turn)
            if job is not None or turn.end is None or self._asked is not None:
                break
            self._finish(turn)
        # A caller has to be told each text once, in whatever call it was decided.
        heard, self._heard = tuple(self._heard), []
        return Decisions(job, heard)

    def _is_late(self, asked: tuple[_Turn, int, int, bool]) -> bool:
        """Tell whether the job is an intermediate one of speech that has paused or ended since.

        Then a new job takes its place, because the last words complete a caption. That job stays,
        so a slow recogniser gets on too.
        """
        turn, begin, end, final = asked
        silent = turn.end is not None or self._endpointer.state is VoiceState.PAUSING
        longest = end - begin >= frames(self.timing.longest)
        # A final job has all words already, and one of the greatest length could have no more
        # audio.
        replaceable = turn is self._turns[0] and not (final or longest)
        return replaceable and silent and end < self._enough(turn)

    def _enough(self, turn: _Turn) -> int:
        """Return the frame by which all speech of an utterance so far is heard.

        It is a little behind the last voice.
        """
        voice_end = self._endpointer.voice_end if turn.end is None else turn.voice_end
        return min(voice_end + frames(self.timing.settle), self._until(turn))

    def _next_job(self, turn: _Turn) -> RecognitionJob | None:
        """Return the job that is due for an utterance."""
        until = self._until(turn)
        silent = until - self._endpointer.voice_end
        enough = self._enough(turn)
        pausing = turn.end is None and self._endpointer.state is VoiceState.PAUSING
        # All that was said before the pause is known, so its last mark can be trusted.
        if pausing and turn.answered >= enough:
            self._end_early(turn, silent)
        if turn.end is not None:
            due = turn.answered < enough and turn.tries < TRIES
        elif self._is_noise(turn):
            due = False
        elif pausing:
            due = turn.asked < enough
        else:
            # A pause may begin: its words are asked for at once, unless they go on.
            due = not silent and until - turn.asked >= frames(self.timing.step)
        if not due:
            return None
        # Whisper reads 30 s at most; the rest of a longer speech is for the next job.
        limit = turn.begin + frames(self.timing.longest)
        whole = pausing or turn.end is not None
        turn.asked = until
        return self._job(turn, min(until, limit), final=whole and until <= limit)

    def _job(self, turn: _Turn, until: int, *, final: bool) -> RecognitionJob:
        """Return the job of recognising an utterance behind its last cut."""
        self._asked = (turn, turn.begin, until, final)
        before = text_of(turn.hypotheses.settled)
        # The utterance before tells style, names and topic, unless it was in another language.
        if not before and turn.language.decided in ("", self._lang):
            before = self._said
        # The end of the text is what the next words continue.
        before = before[-PROMPT:]
        return RecognitionJob(
            id=f"{self.id}-{next(self._jobs)}",
            room=self.room,
            tenant=self.tenant,
            audio=self._audio.pcm(turn.begin, until),
            langs=turn.language.langs,
            prompt=" ".join(part for part in (self.prompt, before) if part),
            hotwords=self.hotwords,
            final=final,
        )

    def _answered(self) -> tuple[_Turn | None, int, int]:
        """Note the end of the job, and return its utterance and frames.

        The utterance is None if it has ended meanwhile.
        """
        assert self._asked is not None, "there is no job"
        turn, begin, end, _ = self._asked
        self._asked = None
        current = self._turns and self._turns[0] is turn
        return (turn if current else None), begin, end

    def _end_early(self, turn: _Turn, silent: int) -> None:
        """End the speech at a short pause, if its text ends like a sentence.

        :param silent: frames without voice
        """
        enough = silent >= frames(self.timing.sentence_pause)
        if enough and is_sentence_end(turn.hypotheses.text):
            self._end_speech()

    # Words

    def _take(self, turn: _Turn, recognised: Recognised, begin: int, end: int) -> None:
        """Take in the hypothesis of the frames from ``begin`` to before ``end``."""
        settle = frames(self.timing.settle)
        ended = turn.end is not None and end >= min(turn.voice_end + settle, turn.end)
        pausing = turn.end is None and self._endpointer.state is VoiceState.PAUSING
        whole = ended or (pausing and end >= self._endpointer.voice_end + settle)
        # Words in a language that is in doubt wait, but an utterance has to end in some language.
        lang, probability = recognised.lang, recognised.lang_probability
        believed = turn.language.hear(lang, probability, seconds(end - begin))
        if not (believed or (ended and turn.language.settle())):
            turn.tries += turn.end is not None
            return
        # Only now: words in a language that is in doubt are asked for again. Speech that was too
        # long for this job is due at once, but not after a failure, which would come again.
        turn.answered = turn.asked = end
        words = self._believed(recognised, begin, end)
        turn.hypotheses.add(words, whole=whole)
        # The same text again is worth reporting, because two of a kind are agreed. At the end the
        # final text follows at once.
        if words and not ended:
            self._show(turn)
        if not whole:
            self._trim(turn, end)

    def _believed(self, recognised: Recognised, begin: int, end: int) -> list[Word]:
        """Return the words that were probably spoken, with times from the beginning of the audio.

        :param begin: first frame of the audio recognised
        :param end: frame behind the audio recognised
        """
        voice = self._audio.voiced(begin, end)
        last = self._audio.voice_end(begin, end)
        start, limit = seconds(begin), seconds(end)
        return [
            Word(
                word.text,
                min(start + max(0.0, word.start), limit),
                min(start + max(0.0, word.end), limit),
                word.probability,
            )
            for word in credible(recognised, seconds(voice), seconds(last - begin))
        ]

    def _trim(self, turn: _Turn, end: int) -> None:
        """Settle the beginning of an utterance that has become long.

        :param end: frame behind the audio of the last hypothesis
        """
        length, hypotheses = end - turn.begin, turn.hypotheses
        if length <= frames(self.timing.window):
            return
        # Beyond this length every further hypothesis would lose its beginning.
        forced = length >= frames(self.timing.longest)
        until = seconds(end) - MARGIN
        place = hypotheses.place(until, forced=forced)
        if place:
            cut = frames(hypotheses.settle(place))
        elif forced:
            # No word ends early enough to cut behind it, so all of them are settled.
            cut = frames(until)
            hypotheses.skip(until)
        else:
            return
        turn.begin = max(turn.begin, min(cut, end))
        if turn.shown is not None and seconds(turn.begin) - turn.shown.t0 >= self.timing.utterance:
            self._split(turn)
        self._audio.drop(turn.begin)

    def _split(self, turn: _Turn) -> None:
        """End an utterance at its last cut, and continue with the rest as another one."""
        language = LanguageChoice(self.langs, turn.language.decided or self._lang)
        rest = _Turn(turn.begin, language, turn.hypotheses.split())
        rest.end, rest.voice_end = turn.end, turn.voice_end
        rest.asked, rest.answered = turn.asked, turn.answered
        # In its place before anything is reported, since the rest has the later words.
        self._turns[0] = rest
        self._say(turn, final=True)
        self._show(rest)

    def _show(self, turn: _Turn) -> None:
        """Report the words of an unfinished utterance, if it has any."""
        if turn.hypotheses.text:
            self._say(turn, final=False)

    def _finish(self, turn: _Turn) -> None:
        """End the oldest utterance with the words that it has."""
        # Speech that no result covers is lost: an operator sees a recogniser that is too slow.
        if turn.answered < self._enough(turn):
            self._lost += self._audio.voiced(turn.answered, self._until(turn))
        self._remove(turn)
        turn.hypotheses.finish()
        self._say(turn, final=True)

    def _remove(self, turn: _Turn) -> None:
        """Forget an utterance and its audio."""
        self._turns.remove(turn)
        self._audio.drop(
            self._turns[0].begin if self._turns else self._audio.end - frames(self.timing.before)
        )

    def _say(self, turn: _Turn, *, final: bool) -> None:
        """Report the text of an utterance."""
        words, text = turn.hypotheses.words, turn.hypotheses.text
        if turn.shown is not None:
            t0, t1 = turn.shown.t0, turn.shown.t1
        elif text:
            turn.number = next(self._utterances)
            t0 = t1 = max(words[0].start, self._heard_until)
        else:
            return  # nobody has seen anything of it
        # Corrections may drop the last word, but times never go back.
        t1 = max(words[-1].end if words else t1, t1)
        lang = turn.language.decided
        turn.shown = Heard(
            utterance=turn.number,
            text=text,
            lang=lang,
            t0=t0,
            t1=t1,
            final=final,
            words=tuple(words),
        )
        self._heard.append(turn.shown)
        if final:
            self._heard_until = max(self._heard_until, t1)
            self._lang, self._said = lang or self._lang, text
