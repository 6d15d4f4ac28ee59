"""The jobs of a room: what the engine is asked to do, and what is made of its answers."""

from __future__ import annotations

import pytest

from gateway.core.base.model import Model
from gateway.core.base.translation_context import Pairs, TranslationContext
from gateway.core.captions.captioner import MISSED, Captioner, CaptionSink
from gateway.core.captions.job_builder import JobBuilder
from gateway.core.captions.outcomes import CaptionOutcomes
from gateway.core.history.event_log import EventLog
from gateway.core.history.publisher import Publisher
from gateway.core.members.attendance import Attendance
from gateway.core.members.subscribers import Subscribers
from gateway.core.scheduling.scheduler import Scheduler
from gateway.core.streaming.length_ratios import LengthRatios
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.stability import StabilityRules
from gateway.core.utterances.caption_state import CaptionState
from gateway.core.utterances.collection import Utterances
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.engines.profiles import Profile
from gateway.errors import ErrorCode
from gateway.job import Chunk, Job, Priority
from gateway.limits import Limits
from gateway.protocol.messages import Delta, Edited, Failed, Final, ServerMessage, Timing
from gateway.text.glossary import Glossary
from tests.support.meeting import NOW, Meeting, one

PROFILE = Profile(name="test", kind="raw", languages=("en", "de", "fr", "zh-Hant"))
RULES = StabilityRules(hold=1, mask=0, agree=2)
LIMITS = Limits()


class Readers(Subscribers):
    """Subscribers that keep every delta instead of sending it."""

    def __init__(self) -> None:
        super().__init__(PROFILE.targets, LIMITS.linger_s)
        self.shown: list[Delta] = []

    def show(self, delta: Delta, now: float) -> None:
        self.shown.append(delta)


class Past(Utterances):
    """Utterances before which ``pairs`` were said."""

    pairs: Pairs = ()

    def translated_before(self, utterance: Utterance, lang: str) -> Pairs:
        return self.pairs


class Desk:
    """A captioner whose engine is worked by hand. ``made`` is what became of each language."""

    def __init__(
        self,
        profile: Model = PROFILE,
        depth: int = 10,
        capacity: int = 5,
        rules: StabilityRules = RULES,
    ) -> None:
        self.scheduler = Scheduler(capacity=capacity, depth=depth)
        self.readers = Readers()
        self.past = Past("desk", StreamingOptions(), LIMITS)
        attendance = Attendance(self.readers.members, self.past)
        publisher = Publisher(EventLog("epoch", LIMITS), self.readers, self.observe)
        builder = JobBuilder(
            room="desk",
            model=profile,
            scheduler=self.scheduler,
            context=TranslationContext(),
            rules=rules,
            utterances=self.past,
            length_ratios=LengthRatios(rules),
        )
        outcomes = CaptionOutcomes(publisher, self.readers, attendance)
        self.captioner = Captioner(profile, self.scheduler, builder, outcomes, self.readers.show)
        self.made: dict[str, str] = {}
        self.said: str | None = None
        self.lines: dict[str, CaptionSink | None] = {}

    @property
    def shown(self) -> list[Delta]:
        return self.readers.shown

    def observe(self, event: ServerMessage, now: float) -> None:
        match event:
            case Final():
                self.made[event.lang] = f"{event.by}: {event.text}"
            case Failed():
                self.made[event.lang] = f"! {event.code}"
                self.said = event.msg
            case Edited():
                self.made[event.lang] = f"{event.by} again: {event.text}"

    def start(self) -> list[Job]:
        """Start the jobs that the engine is given, and return them."""
        jobs = [action for action in self.scheduler.actions() if isinstance(action, Job)]
        for job in jobs:
            self.lines[job.id] = self.captioner.started(job.id, NOW)
        return jobs

    def translate(self, utterance: Utterance, *langs: str) -> list[Job]:
        self.captioner.translate(utterance, langs, NOW)
        return self.start()

    def end(self, job: Job, text: str, *flags: str) -> None:
        """Finish a job with ``text``."""
        line = self.lines[job.id]
        assert line is not None
        line.add_output(Chunk(text, flags=flags), NOW)
        self.captioner.finished(job.id, NOW)
        self.scheduler.done(job.id)


def utterance(text: str, lang: str = "en", *, final: bool = True) -> Utterance:
    made = Utterance("u1", 1, "s1")
    say(made, text, lang, final=final)
    return made


def say(made: Utterance, text: str, lang: str = "en", *, final: bool = True) -> None:
    """Give an utterance a newer text."""
    made.text, made.lang, made.final = text, lang, final
    made.grown = made.grown or not final
    made.text_number += 1
    made.rev += 1


# --- what a job is told -------------------------------------------------------------------------


def test_a_job_has_the_languages_as_the_model_calls_them() -> None:
    desk = Desk()
    (job,) = desk.translate(utterance("hello", "en-GB"), "zh-TW")
    assert (job.source, job.target, job.room) == ("en", "zh-Hant", "desk")


def test_a_job_is_told_what_the_room_wants_its_translators_to_know() -> None:
    desk = Desk()
    brief = desk.captioner.builder.context
    brief.topic, brief.style, brief.glossary = "a stand-up", "formal", Glossary({"sprint": "S"})
    brief.add_speaker("Ada")
    desk.past.pairs = (("one", "eins"),)
    (job,) = desk.translate(utterance("the sprint of Ada ends"), "de")
    assert (job.topic, job.style, job.context) == ("a stand-up", "formal", (("one", "eins"),))
    assert job.glossary == (("sprint", "S"), ("Ada", "Ada"))


def test_a_job_is_told_only_the_terms_that_occur_in_its_text() -> None:
    desk = Desk()
    desk.captioner.builder.context.glossary = Glossary({"sprint": "S"})
    desk.captioner.builder.context.add_speaker("Ada")
    (job,) = desk.translate(utterance("hello"), "de")
    assert job.glossary == ()


def test_a_final_goes_before_a_partial_and_what_is_made_later_behind_both() -> None:
    desk = Desk()
    desk.captioner.backfill(utterance("one"), "de", NOW)
    (backfill,) = desk.start()
    (partial,) = desk.translate(utterance("two", final=False), "de")
    (final,) = desk.translate(utterance("three"), "de")
    assert [job.priority for job in (final, partial, backfill)] == list(Priority)
    assert [job.partial for job in (final, partial, backfill)] == [False, True, False]


def test_growing_text_needs_no_translation_of_its_end_once_a_caption_was_finished() -> None:
    desk = Desk(rules=StabilityRules(hold=1, mask=1, agree=2))
    (first,) = desk.translate(utterance("one two three four", final=False), "de")
    assert first.needed == 0
    (whole,) = desk.translate(utterance("one two three four"), "de")
    desk.end(whole, "eins zwei drei vier")
    grows = utterance("one two three four", final=False)
    (job,) = desk.translate(grows, "de")
    assert 0 < job.needed < len("eins zwei drei")
    desk.end(job, "eins zwei dr")
    assert desk.shown[-1].draft == "eins zwei"
    say(grows, "one two three four five")
    (final,) = desk.translate(grows, "de")
    assert final.needed == 0


def test_a_waiting_job_needs_more_of_the_newest_text() -> None:
    desk = Desk(capacity=1, rules=StabilityRules(hold=1, mask=1, agree=2))
    (whole,) = desk.translate(utterance("one two three four"), "de")
    desk.end(whole, "eins zwei drei vier")
    grows, running = utterance("one two three", final=False), utterance("one")
    desk.translate(running, "de")
    assert desk.translate(grows, "de") == []
    say(grows, "one two three four five six", final=False)
    assert desk.translate(grows, "de") == []
    desk.captioner.cancel(running, None, NOW)
    desk.scheduler.done(next(iter(desk.lines.keys() - {whole.id})))
    (job,) = desk.start()
    assert job.needed > len("eins zwei drei")
    desk.end(job, "eins zwei drei vier fünf sec")
    assert desk.shown[-1].draft == "eins zwei drei vier fünf"


def test_nothing_is_submitted_twice_for_the_same_text() -> None:
    desk = Desk()
    said = utterance("hello")
    assert len(desk.translate(said, "de")) == 1
    assert desk.translate(said, "de") == []


# --- what comes of it ---------------------------------------------------------------------------


def test_a_final_is_finished_with_its_flags_and_one_for_terms_that_are_missing() -> None:
    desk = Desk()
    desk.captioner.builder.context.glossary = Glossary({"sprint": "Sprint", "other": "Anderes"})
    said = utterance("the sprint ends")
    (job,) = desk.translate(said, "de")
    desk.end(job, "der Lauf endet", "numbers")
    assert desk.made == {"de": "mt: der Lauf endet"}
    assert said.captions["de"].flags == ("numbers", MISSED)


def test_each_language_is_told_its_own_translation_of_a_term_and_checked_for_it() -> None:
    desk = Desk()
    terms = {"sprint": {"de": "Etappe", "fr": "itération"}}
    desk.captioner.builder.context.glossary = Glossary(terms)
    desk.captioner.builder.context.add_speaker("Ada")  # whose name may be missing
    said = utterance("the sprint of Ada ends")
    for job in desk.translate(said, "de", "fr"):
        assert job.glossary[0] == ("sprint", terms["sprint"][job.target])
        desk.end(job, "die Etappe")
    assert said.captions["de"].flags == ()
    assert said.captions["fr"].flags == (MISSED,)


def test_the_original_is_the_caption_of_those_who_read_its_language() -> None:
    desk = Desk()
    assert desk.translate(utterance("hello"), "en") == []
    assert desk.made == {"en": "same: hello"}


def test_a_growing_original_is_shown_to_them_and_to_nobody_else() -> None:
    desk = Desk()
    said = utterance("hello", final=False)
    for text in ("hello", "hello you", "hello you"):
        desk.captioner.echo(said, text, ("en", "de"), NOW)
    assert [delta.draft for delta in desk.shown] == ["hello", "hello you"]
    assert list(said.captions) == ["en"]
    said.captions["en"].cancel()
    desk.captioner.echo(said, "hello all", ("en",), NOW)
    assert len(desk.shown) == 2


def test_a_pair_that_the_model_lacks_fails_at_the_end() -> None:
    desk = Desk(Profile(name="pairs", kind="raw", languages=("en", "de", "fr"), pairs="english"))
    said = utterance("bon", "fr", final=False)
    for lang in ("de", "tlh"):
        assert desk.translate(said, lang) == []
    assert desk.made == {}
    say(said, "bonjour", "fr")
    assert desk.translate(said) == []
    assert desk.made == {"de": "! pair_unsupported", "tlh": "! pair_unsupported"}


def test_a_job_that_failed_while_the_text_grew_is_followed_by_the_newest_text() -> None:
    desk = Desk()
    said = utterance("one", final=False)
    (job,) = desk.translate(said, "de")
    for text in ("one two", "one two three"):
        say(said, text, final=False)
        assert desk.translate(said) == []
    desk.captioner.failed(job.id, ErrorCode.TIMEOUT, NOW)
    assert [job.text for job in desk.start()] == ["one two three"]
    assert desk.made == {}


def test_a_caption_that_ended_is_not_made_again() -> None:
    desk = Desk()
    said = utterance("one", final=False)
    desk.translate(said, "de")
    assert desk.captioner.withdraw(said.captions["de"]) == "running"
    said.captions["de"].cancel()
    say(said, "one two")
    assert desk.translate(said, "de") == []


def test_text_of_a_job_that_was_taken_back_is_ignored() -> None:
    desk = Desk()
    said = utterance("hello")
    (job,) = desk.translate(said, "de")
    desk.captioner.withdraw(said.captions["de"])
    assert desk.captioner.withdraw(said.captions["de"]) is None
    assert desk.captioner.started(job.id, NOW) is None
    desk.captioner.failed(job.id, ErrorCode.TIMEOUT, NOW)
    desk.end(job, "hallo")
    assert (desk.made, desk.shown) == ({}, [])
    assert said.captions["de"].state is CaptionState.OPEN


# --- what is made of an utterance that has ended --------------------------------------------------


def test_a_backfilled_caption_needs_a_place_in_the_queue_unless_it_is_the_original() -> None:
    desk = Desk(depth=2, capacity=0)
    said = utterance("hello")
    for lang in ("de", "fr", "zh-Hant", "en"):
        desk.captioner.backfill(said, lang, NOW)
    assert sorted(said.captions) == ["de", "en"]
    assert desk.made == {"en": "same: hello"}


def test_captions_in_progress_are_found_by_their_language() -> None:
    desk = Desk()
    said = utterance("hello")
    desk.captioner.backfill(said, "de", NOW)
    desk.captioner.backfill(said, "fr", NOW)
    assert desk.captioner.in_progress({"fr", "en"}) == [(said, said.captions["fr"])]


def test_a_translation_of_a_corrected_original_is_finished_whoever_reads_it() -> None:
    desk = Desk()
    said = utterance("hello")
    (job,) = desk.translate(said, "de")
    desk.end(job, "hallo")
    say(said, "bye")
    desk.captioner.revise(said, NOW)
    assert desk.captioner.in_progress({"de"}) == []
    (job,) = desk.start()
    desk.end(job, "tschüss")
    assert desk.made == {"de": "mt again: tschüss"}


@pytest.mark.parametrize("end", [Caption.fail, Caption.cancel])
def test_failed_and_cancelled_captions_are_not_translated_anew(end: object) -> None:
    assert callable(end)
    desk = Desk()
    said = utterance("hello")
    desk.translate(said, "de")
    desk.captioner.withdraw(said.captions["de"])
    end(said.captions["de"])
    say(said, "bye")
    desk.captioner.revise(said, NOW)
    assert desk.start() == []


def test_nor_is_what_the_model_cannot_translate() -> None:
    desk = Desk(Profile(name="pairs", kind="raw", languages=("en", "de"), pairs=(("en", "de"),)))
    said = utterance("hello")
    caption = said.captions["fr"] = Caption("u1", "fr", RULES)
    caption.edit("bonjour", "mt")
    desk.captioner.revise(said, NOW)
    assert desk.start() == []


def test_control_characters_of_the_model_are_shown_as_spaces() -> None:
    desk = Desk()
    (job,) = desk.translate(utterance("good morning"), "de")
    desk.end(job, "guten\x07Morgen\u2028alle")
    assert desk.made == {"de": "mt: guten Morgen alle"}
    assert [delta.add for delta in desk.shown] == ["guten Morgen alle"]


def test_the_times_of_a_caption_count_from_the_utterance() -> None:
    room = Meeting(lazy=True)
    peer = room.enter("de")
    peer.say("hello")
    room.now += 1
    room.begin(*room.given.values())
    room.now += 1
    room.feed(room.job("de"), "a")
    room.now += 1
    room.finish(room.job("de"), "b")
    assert one(Final, peer.events()).ms == Timing(queue=1000, first=2000, total=3000)


class Bridge:
    """A model with English on one side of every pair, and the other pairs through it."""

    name = "bridge"
    sources = targets = ("de", "en", "fr", "ja")
    pivot = "en"
    glossary = True

    def supports(self, source: str, target: str) -> bool:
        return source != target

    def pivots(self, source: str, target: str) -> bool:
        return "en" not in (source, target)

    def resolve(self, source: str, target: str) -> tuple[str, str]:
        return source, target


def test_the_pivot_language_comes_first_and_jobs_through_it_count_two_steps() -> None:
    desk = Desk(Bridge())
    jobs = desk.translate(utterance("guten Tag", "de"), "ja", "en", "fr")
    assert [(job.target, job.steps) for job in jobs] == [("en", 1), ("fr", 2), ("ja", 2)]
    assert {job.utterance for job in jobs} == {"u1"}


# --- texts in another language ------------------------------------------------------------------


def test_a_text_that_is_not_in_the_language_stated_for_it_has_no_caption_in_any() -> None:
    desk = Desk()
    asked = []

    def instead(text: str, lang: str) -> str | None:
        asked.append((text, lang))
        return "ru" if text == "Привет" else None

    desk.captioner.instead = instead
    assert desk.translate(utterance("Привет"), "de", "en", "fr") == []
    assert desk.made == dict.fromkeys(("de", "en", "fr"), "! lang_mismatch")
    assert desk.said == "The text looks like Russian, but English was stated."
    assert asked == [("Привет", "en")], "once for all captions"


def test_a_growing_text_in_another_language_waits_for_its_end() -> None:
    desk = Desk()
    desk.captioner.instead = lambda text, lang: "ru" if text == "Привет" else None
    grows = utterance("hello", final=False)
    desk.translate(grows, "de")
    say(grows, "Привет", final=False)
    assert desk.translate(grows, "de") == [] and desk.made == {}
    say(grows, "Привет")
    assert desk.translate(grows, "de") == [] and desk.made == {"de": "! lang_mismatch"}
    assert grows.captions["de"].state is CaptionState.FAILED


def test_a_text_in_a_language_that_cannot_be_translated_says_which_one_it_is() -> None:
    desk = Desk()
    assert desk.translate(utterance("Привет", "ru"), "de") == []
    assert desk.made == {"de": "! lang_unsupported"}
    assert desk.said == "The text looks like Russian, which this gateway cannot translate."


def test_a_correction_in_another_language_leaves_the_translation_as_it_was() -> None:
    desk = Desk()
    desk.captioner.instead = lambda text, lang: "ru" if text == "Привет" else None
    made = utterance("hello")
    (job,) = desk.translate(made, "de")
    desk.end(job, "hallo")
    say(made, "Привет")
    desk.captioner.revise(made, NOW)
    assert desk.start() == [] and desk.made == {"de": "mt: hallo"}
