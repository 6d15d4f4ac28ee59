"""Speech of one person: the state machine between audio, a recogniser and growing captions.

Owns: which audio is recognised and when, and what is heard in consequence. Must not know: clocks,
tasks, recognisers, rooms. Time is counted in audio.

Speech between two pauses is an utterance. While it grows, hypotheses of it are asked for one after
the other, each for all audio since the last cut. At a pause the words so far are asked for at once,
as if the speech had ended; if it has, this is the final text. Utterances that wait behind a late
recogniser are kept in order, in bounded memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count

from gateway.core.recognition.audio_buffer import AudioBuffer
from gateway.core.recognition.endpointing import Endpointer, VoiceState
from gateway.core.recognition.hypotheses import Hypotheses, is_sentence_end, text_of
from gateway.core.recognition.speech_timing import FRAME_BYTES, SpeechTiming, frames, seconds
from gateway.core.recognition.spoken_utterance import (
    Decisions,
    Heard,
    LanguageChoice,
    SpokenUtterance,
)
from gateway.core.recognition.unspoken_words import credible
from gateway.job import Recognised, RecognitionJob, Word

PROMPT = 200
"""Characters of the text before the audio that a hypothesis continues."""

TRIES = 2
"""Recognitions of the last words of an utterance, if the first one fails or is in doubt."""

MARGIN = 1.0
"""Seconds at the end of a hypothesis that are not settled: its last word may be broken off."""


class SpeechRecognition:
    """The audio of one speaker, from the beginning on.

    :param id: prefix of the ids of its jobs, unique in this process
    :param langs: canonical tags of the languages that may be spoken; empty for any
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
        self._pending: deque[SpokenUtterance] = deque()  # only the last one may be unfinished
        self._closed = 0  # frame behind the newest utterance that has ended
        # The only job that is being done: its utterance, frames and `final`.
        self._asked: tuple[SpokenUtterance, int, int, bool] | None = None
        self._job_numbers, self._numbers = count(1), count(1)
        self._lang = ""  # of the last utterance
        self._said = ""  # text of the last utterance
        self._heard: list[Heard] = []
        self._lost = 0  # frames with voice that were not recognised
        self._heard_until = 0.0  # end of the last word of the last utterance

    @property
    def idle(self) -> bool:
        """True if all audio is settled: nothing more is heard of it."""
        return not self._pending

    @property
    def settled(self) -> float:
        """Seconds of audio, from its beginning, that are recognised for good or silent."""
        return seconds(self._pending[0].begin if self._pending else self._audio.end)

    @property
    def lost(self) -> float:
        """Seconds of voice that were not recognised, in utterances that have ended."""
        return seconds(self._lost)

    def add_audio(self, pcm: bytes, voice: Sequence[float]) -> Decisions:
        """Process the next audio.

        :param pcm: whole frames in the form of `RecognitionJob.audio`
        :param voice: probability of voice in each of them
        """
        assert len(pcm) == FRAME_BYTES * len(voice), "each frame has a probability"
        view = memoryview(pcm)
        for n, probability in enumerate(voice):
            self._add(view[n * FRAME_BYTES : (n + 1) * FRAME_BYTES], probability)
        return self._decide()

    def result(self, recognised: Recognised) -> Decisions:
        """Take the result of the job that was asked for last."""
        spoken, begin, end = self._answered()
        if spoken is not None:
            self._take(spoken, recognised, begin, end)
        return self._decide()

    def failed(self) -> Decisions:
        """Take notice that the job has failed."""
        spoken, _, _ = self._answered()
        if spoken is not None:
            # While somebody speaks, the next hypothesis covers the same audio anyway.
            spoken.tries += spoken.end is not None
        return self._decide()

    def finish_speech(self) -> Decisions:
        """End the present utterance, if there is one. More audio may follow later."""
        self._end_speech()
        return self._decide()

    def stop(self) -> Decisions:
        """End all utterances at once, with the words that were heard. The job is void."""
        self._end_speech()
        self._asked = None
        while self._pending:
            self._finish(self._pending[0])
        return self._decide()

    def reset(self) -> None:
        """Withdraw all unfinished utterances, and report nothing more of them. The job is void."""
        self._end_speech()
        self._asked = None
        self._pending.clear()
        # Withdrawn words must not come back through the prompt of the next job.
        self._said = ""

    # Audio

    def _add(self, frame: memoryview, probability: float) -> None:
        voice = self._endpointer.is_voice(probability)
        number = self._audio.end
        # Kept before anything is decided, since the speech may begin before this frame.
        self._audio.append(frame, voice)
        if self._endpointer.add(number, voice):
            if self._endpointer.state is VoiceState.SILENT:
                self._close()
            else:
                self._begin(number + 1 - frames(self.timing.before))
        if self._audio.end - self._audio.begin > frames(self.timing.backlog):
            self._shed()
        # In a silence only audio is kept that may be the beginning of the next speech.
        if not self._pending:
            self._audio.drop(self._audio.end - frames(self.timing.before))

    def _begin(self, begin: int) -> None:
        # Audio is in one utterance only, or its words would be shown twice.
        begin = max(begin, self._closed, self._audio.begin)
        language = LanguageChoice(self.langs, self._lang)
        self._pending.append(SpokenUtterance(begin, language, Hypotheses(seconds(begin))))

    def _end_speech(self) -> None:
        """End the speech that is going on, if any."""
        if self._endpointer.state is not VoiceState.SILENT:
            self._endpointer.end()
            self._close()

    def _close(self) -> None:
        """Note the end of the newest utterance. One that is too short was no speech."""
        spoken = self._pending[-1]
        spoken.end = self._closed = self._audio.end
        spoken.voice_end = self._endpointer.voice_end
        # A cough that was shown as a word has to end as an utterance.
        if not spoken.hypotheses.words and self._is_noise(spoken):
            self._remove(spoken)

    def _is_noise(self, spoken: SpokenUtterance) -> bool:
        return self._audio.voiced(spoken.begin, self._until(spoken)) < frames(self.timing.least)

    def _shed(self) -> None:
        """End the oldest utterance with its present words, because too much audio waits."""
        spoken = self._pending[0]
        # Read before `_finish`, which forgets the utterance.
        unfinished = spoken.end is None
        self._finish(spoken)
        if unfinished:  # the speech goes on as another utterance
            self._begin(self._audio.end)

    def _until(self, spoken: SpokenUtterance) -> int:
        """Return the number of the frame behind the last one of an utterance so far."""
        return self._audio.end if spoken.end is None else spoken.end

    # Jobs

    def _decide(self) -> Decisions:
        """Return all that was heard since the last call, and the job that is due."""
        job = None
        while self._pending and (self._asked is None or self._is_late(self._asked)):
            spoken = self._pending[0]
            job = self._next_job(spoken)
            if job is not None or spoken.end is None or self._asked is not None:
                break
            self._finish(spoken)
        # A caller has to be told each text once, in whatever call it was decided.
        heard, self._heard = tuple(self._heard), []
        return Decisions(job, heard)

    def _is_late(self, asked: tuple[SpokenUtterance, int, int, bool]) -> bool:
        """Tell whether the job is an intermediate one of speech that has paused or ended since.
        Then a new job takes its place, because the last words complete a caption.
        """
        spoken, begin, end, final = asked
        silent = spoken.end is not None or self._endpointer.state is VoiceState.PAUSING
        longest = end - begin >= frames(self.timing.longest)
        # A final job has all words already, and one of the greatest length could have no more
        # audio.
        replaceable = spoken is self._pending[0] and not (final or longest)
        return replaceable and silent and end < self._enough(spoken)

    def _enough(self, spoken: SpokenUtterance) -> int:
        """Return the frame, a little behind the voice, by which an utterance so far is heard."""
        voice_end = self._endpointer.voice_end if spoken.end is None else spoken.voice_end
        return min(voice_end + frames(self.timing.settle), self._until(spoken))

    def _next_job(self, spoken: SpokenUtterance) -> RecognitionJob | None:
        until = self._until(spoken)
        silent = until - self._endpointer.voice_end
        enough = self._enough(spoken)
        pausing = spoken.end is None and self._endpointer.state is VoiceState.PAUSING
        # All that was said before the pause is known, so its last mark can be trusted.
        if (
            pausing
            and spoken.answered >= enough
            and silent >= frames(self.timing.sentence_pause)
            and is_sentence_end(spoken.hypotheses.text)
        ):
            self._end_speech()
        if spoken.end is not None:
            due = spoken.answered < enough and spoken.tries < TRIES
        elif self._is_noise(spoken):
            due = False
        elif pausing:
            due = spoken.asked < enough
        else:
            # A pause may begin: its words are asked for at once, unless they go on.
            due = not silent and until - spoken.asked >= frames(self.timing.step)
        if not due:
            return None
        # Whisper reads 30 s at most; the rest of a longer speech is for the next job.
        limit = spoken.begin + frames(self.timing.longest)
        whole = pausing or spoken.end is not None
        spoken.asked = until
        return self._job(spoken, min(until, limit), final=whole and until <= limit)

    def _job(self, spoken: SpokenUtterance, until: int, *, final: bool) -> RecognitionJob:
        """Return the job of recognising an utterance behind its last cut."""
        self._asked = (spoken, spoken.begin, until, final)
        before = text_of(spoken.hypotheses.settled)
        # The utterance before tells style, names and topic, unless it was in another language.
        if not before and spoken.language.decided in ("", self._lang):
            before = self._said
        # The next words continue the end of the text.
        before = before[-PROMPT:]
        return RecognitionJob(
            id=f"{self.id}-{next(self._job_numbers)}",
            room=self.room,
            tenant=self.tenant,
            audio=self._audio.pcm(spoken.begin, until),
            langs=spoken.language.langs,
            prompt=" ".join(part for part in (self.prompt, before) if part),
            hotwords=self.hotwords,
            final=final,
        )

    def _answered(self) -> tuple[SpokenUtterance | None, int, int]:
        """Note the end of the job; return its utterance, None if that has ended, and its frames."""
        assert self._asked is not None, "there is no job"
        spoken, begin, end, _ = self._asked
        self._asked = None
        current = self._pending and self._pending[0] is spoken
        return (spoken if current else None), begin, end

    # Words

    def _take(self, spoken: SpokenUtterance, recognised: Recognised, begin: int, end: int) -> None:
        """Take in the hypothesis of the frames from ``begin`` to before ``end``."""
        settle = frames(self.timing.settle)
        ended = spoken.end is not None and end >= min(spoken.voice_end + settle, spoken.end)
        pausing = spoken.end is None and self._endpointer.state is VoiceState.PAUSING
        whole = ended or (pausing and end >= self._endpointer.voice_end + settle)
        # Words in a language that is in doubt wait, but an utterance has to end in some language.
        lang, probability = recognised.lang, recognised.lang_probability
        believed = spoken.language.hear(lang, probability, seconds(end - begin))
        if not (believed or (ended and spoken.language.settle())):
            spoken.tries += spoken.end is not None
            return
        # Only now: words in a language that is in doubt are asked for again. Speech that was too
        # long for this job is due at once, but not after a failure, which would come again.
        spoken.answered = spoken.asked = end
        words = self._believed(recognised, begin, end)
        spoken.hypotheses.add(words, whole=whole)
        # The same text again is worth reporting, because two of a kind are agreed. At the end the
        # final text follows at once.
        if words and not ended:
            self._show(spoken)
        if not whole:
            self._trim(spoken, end)

    def _believed(self, recognised: Recognised, begin: int, end: int) -> list[Word]:
        """Return the words between two frames that were probably spoken."""
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

    def _trim(self, spoken: SpokenUtterance, end: int) -> None:
        """Settle the beginning of an utterance that has become long, up to a frame at most."""
        length, hypotheses = end - spoken.begin, spoken.hypotheses
        if length <= frames(self.timing.window):
            return
        # Beyond this length every further hypothesis would lose its beginning.
        forced = length >= frames(self.timing.longest)
        until = seconds(end) - MARGIN
        count = hypotheses.settleable(until, forced=forced)
        if count:
            cut = frames(hypotheses.settle(count))
        elif forced:
            # No word ends early enough to cut behind it, so all of them are settled.
            cut = frames(until)
            hypotheses.skip(until)
        else:
            return
        spoken.begin = max(spoken.begin, min(cut, end))
        shown = spoken.shown
        if shown is not None and seconds(spoken.begin) - shown.t0 >= self.timing.utterance:
            self._split(spoken)
        self._audio.drop(spoken.begin)

    def _split(self, spoken: SpokenUtterance) -> None:
        """End an utterance at its last cut, and continue with the rest as another one."""
        language = LanguageChoice(self.langs, spoken.language.decided or self._lang)
        rest = SpokenUtterance(spoken.begin, language, spoken.hypotheses.split())
        rest.end, rest.voice_end = spoken.end, spoken.voice_end
        rest.asked, rest.answered = spoken.asked, spoken.answered
        # In its place before anything is reported, since the rest has the later words.
        self._pending[0] = rest
        self._say(spoken, final=True)
        self._show(rest)

    def _show(self, spoken: SpokenUtterance) -> None:
        if spoken.hypotheses.text:
            self._say(spoken, final=False)

    def _finish(self, spoken: SpokenUtterance) -> None:
        # Speech that no result covers is lost: an operator sees a recogniser that is too slow.
        if spoken.answered < self._enough(spoken):
            self._lost += self._audio.voiced(spoken.answered, self._until(spoken))
        self._remove(spoken)
        spoken.hypotheses.finish()
        self._say(spoken, final=True)

    def _remove(self, spoken: SpokenUtterance) -> None:
        self._pending.remove(spoken)
        silence = self._audio.end - frames(self.timing.before)
        self._audio.drop(self._pending[0].begin if self._pending else silence)

    def _say(self, spoken: SpokenUtterance, *, final: bool) -> None:
        words, text = spoken.hypotheses.words, spoken.hypotheses.text
        if spoken.shown is not None:
            t0, t1 = spoken.shown.t0, spoken.shown.t1
        elif text:
            spoken.number = next(self._numbers)
            t0 = t1 = max(words[0].start, self._heard_until)
        else:
            return  # nobody has seen anything of it
        # Corrections may drop the last word, but times never go back.
        t1 = max(words[-1].end if words else t1, t1)
        lang, shown = spoken.language.decided, tuple(words)
        spoken.shown = Heard(
            utterance=spoken.number, text=text, lang=lang, t0=t0, t1=t1, final=final, words=shown
        )
        self._heard.append(spoken.shown)
        if final:
            self._heard_until = max(self._heard_until, t1)
            self._lang, self._said = lang or self._lang, text
