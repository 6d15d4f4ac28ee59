"""Tests of translation in two steps: what each step gets, sharing, growing texts, and stopping."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from caption_gateway.testing.subject import RecordingSink
from gateway.core.streaming.stability import StabilityRules
from gateway.engines.base.engine import Aborted
from gateway.engines.base.service import Health
from gateway.engines.profiles import Profile
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.engines.wrappers import pivot as module
from gateway.engines.wrappers.pivot import PivotEngine
from gateway.errors import EngineFault, EngineGone, ErrorCode, JobFault
from gateway.job import Chunk, Job
from tests.engines.reading import chunks, started
from tests.engines.workshop import Named, settle, with_spare

RULES = StabilityRules(hold=1, mask=1, agree=2)


class Bridge(ScriptedEngine):
    """An engine with English on one side of every pair. It keeps its jobs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._profile = Profile(
            name="bridge", kind="raw", languages=("en", "de", "fr", "ja"), pairs="english"
        )
        self.given: list[Job] = []

    def pieces(self, job: Job) -> list[str]:
        self.given.append(job)
        return super().pieces(job)


def job(id: str = "1", text: str = "guten Tag", target: str = "fr", **fields: Any) -> Job:
    return Job(id=id, text=text, source="de", target=target, **fields)


async def translated(engine: PivotEngine, job: Job) -> str:
    return "".join(chunk.text for chunk in await chunks(engine, job))


async def test_the_first_step_goes_into_the_pivot_language_and_the_second_streams() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        found = await chunks(engine, job())
        assert [chunk.text for chunk in found] == ["[fr]", " [en]", " guten", " Tag"]
        steps = [(one.source, one.target, one.text) for one in inner.given]
        assert steps == [("de", "en", "guten Tag"), ("en", "fr", "[en] guten Tag")]


async def test_a_substitute_that_makes_both_steps_is_named_once() -> None:
    engine = PivotEngine(with_spare(Named("first", languages=("ja", "ko")), Bridge()), "en", RULES)
    async with started(engine):
        await settle()
        flags = [chunk.flags for chunk in await chunks(engine, job()) if chunk.flags]
        assert flags == [("engine:scripted", "pivot:en")]


async def test_a_caption_in_two_steps_is_flagged_and_one_in_a_single_step_is_not() -> None:
    engine = PivotEngine(Bridge(), "en", RULES)
    async with started(engine):
        flags = [chunk.flags for chunk in await chunks(engine, job())]
        assert flags == [("pivot:en",), (), (), ()]
        direct = await chunks(engine, job(target="en"))
        assert not any(chunk.flags for chunk in direct)


async def test_doubts_about_the_first_step_are_doubts_about_the_caption() -> None:
    class Doubtful(Bridge):
        def submit(self, job: Job, sink: Any) -> None:
            if job.target == "en":
                for call in (
                    lambda: sink.chunk(Chunk("a first attempt", flags=("url",), p=0.25)),
                    lambda: sink.chunk(Chunk("hello", reset=True)),
                    lambda: sink.chunk(Chunk("", 0, flags=("numbers",), p=0.5)),
                    lambda: sink.end(None),
                ):
                    asyncio.get_running_loop().call_soon(call)
            else:
                for call in (
                    lambda: sink.chunk(Chunk("[fr]", p=0.25)),
                    lambda: sink.chunk(Chunk(" hello")),
                    lambda: sink.end(None),
                ):
                    asyncio.get_running_loop().call_soon(call)

    engine = PivotEngine(Doubtful(), "en", RULES)
    async with started(engine):
        found = await chunks(engine, job())
        assert "".join(chunk.text for chunk in found) == "[fr] hello"
        assert (found[0].flags, found[0].p) == (("numbers", "pivot:en"), 0.5 * 0.25)
        assert all(chunk.p == 1 for chunk in found[1:])


async def test_a_second_attempt_of_the_second_step_keeps_the_flag() -> None:
    def fault(job: Job, n: int) -> None:
        if job.source == "en" and n == 1:
            raise EngineGone("It died.")

    engine = PivotEngine(with_spare(Bridge(fault=fault), Bridge()), "en", RULES)
    async with started(engine):
        await settle()
        found = await chunks(engine, job())
        assert [(chunk.text, chunk.flags) for chunk in found if chunk.flags] == [
            ("[fr]", ("pivot:en",)),
            ("[fr]", ("pivot:en",)),
        ]
        assert [chunk.reset for chunk in found] == [False, True, False, False, False]


async def test_a_translation_without_any_output_is_flagged_all_the_same() -> None:
    inner = Bridge(script={("[en] guten Tag", "fr"): [], ("[en] guten", "fr"): []})
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        assert await chunks(engine, job()) == [Chunk("", 3, flags=("pivot:en",))]
        assert await chunks(engine, job(partial=True)) == []


async def test_an_empty_first_step_of_a_growing_text_is_an_empty_translation() -> None:
    inner = Bridge(script={("äh", "en"): []})
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        assert await chunks(engine, job(text="äh", partial=True)) == []
        assert len(inner.given) == 1


async def test_context_and_style_belong_to_the_second_step_and_terms_pass_the_first() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        await chunks(
            engine,
            job(
                context=(("eins", "un"),),
                glossary=(("Tag", "jour"),),
                style="formal",
                topic="a court",
            ),
        )
    first, second = inner.given
    assert (first.context, first.style, first.topic) == ((), None, "a court")
    assert first.glossary == (("Tag", "Tag"),)
    assert (second.context, second.style, second.topic) == ((), "formal", "a court")
    assert second.glossary == (("Tag", "jour"),)


async def test_a_pair_that_an_engine_has_goes_to_it_directly() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        assert await translated(engine, job(target="en")) == "[en] guten Tag"
        assert len(inner.given) == 1
    assert engine.profile.pivots("de", "fr") and not engine.profile.pivots("de", "en")
    assert engine.profile is engine.profile
    assert engine.profile.pivot == "en"


# --- sharing -----------------------------------------------------------------------------------


async def test_captions_of_one_utterance_share_the_first_step() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        found = await asyncio.gather(
            *(translated(engine, job(lang, target=lang, utterance="u1")) for lang in ("fr", "ja"))
        )
        assert found == ["[fr] [en] guten Tag", "[ja] [en] guten Tag"]
        # One that comes later, such as for a new reader, finds it made.
        assert await translated(engine, job("later", utterance="u1")) == found[0]
        assert [one.target for one in inner.given] == ["en", "fr", "ja", "fr"]


@pytest.mark.parametrize("differs", [{"utterance": "u2"}, {"room": "other"}, {"text": "ja"}])
async def test_other_utterances_share_nothing(differs: dict[str, str]) -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        await translated(engine, job(utterance="u1"))
        await translated(engine, job(**{"utterance": "u1"} | differs))
        assert [one.target for one in inner.given] == ["en", "fr", "en", "fr"]


async def test_jobs_that_name_no_utterance_share_nothing() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        await translated(engine, job("1"))
        await translated(engine, job("2"))
        assert [one.target for one in inner.given] == ["en", "fr", "en", "fr"]


@pytest.mark.parametrize("together", [True, False])
async def test_what_readers_of_the_pivot_language_get_is_the_first_step_of_the_others(
    together: bool,
) -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        english = asyncio.create_task(translated(engine, job("en", target="en", utterance="u")))
        if together:
            await asyncio.sleep(0)
        else:
            await english
        assert await translated(engine, job("fr", utterance="u")) == "[fr] [en] guten Tag"
        assert await english == "[en] guten Tag"
        assert [one.target for one in inner.given] == ["en", "fr"]


async def test_captions_make_their_own_step_if_the_one_they_waited_for_is_cancelled() -> None:
    inner = Bridge()
    inner.hold()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        english = RecordingSink().submit(engine, job("en", target="en", utterance="u"))
        french = RecordingSink().submit(engine, job("fr", utterance="u"))
        japanese = RecordingSink().submit(engine, job("ja", target="ja", utterance="u"))
        engine.abort("en")
        assert isinstance(english.fault, Aborted)
        inner.release()
        await french.over.wait()
        await japanese.over.wait()
        assert (french.text, japanese.text) == ("[fr] [en] guten Tag", "[ja] [en] guten Tag")
        assert [one.target for one in inner.given] == ["en", "en", "fr", "ja"]


async def test_first_steps_are_forgotten_when_they_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "KEEP_S", 0.0)
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        await translated(engine, job("1", utterance="u"))
        while engine._texts:  # noqa: ASYNC110  # the timer has no event
            await asyncio.sleep(0)
        assert engine._sweep is None
        await translated(engine, job("2", utterance="u"))
        assert [one.target for one in inner.given] == ["en", "fr", "en", "fr"]


async def test_closing_the_engine_forgets_all_texts() -> None:
    engine = PivotEngine(Bridge(), "en", RULES)
    async with started(engine):
        await translated(engine, job(utterance="u"))
        assert engine._texts
    assert not engine._texts and engine._sweep is None


# --- stopping and failing ----------------------------------------------------------------------


async def test_an_abort_in_the_first_step_stops_it_if_nobody_else_waits_for_it() -> None:
    inner = Bridge()
    inner.hold()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        french = RecordingSink().submit(engine, job("fr", utterance="u"))
        japanese = RecordingSink().submit(engine, job("ja", target="ja", utterance="u"))
        engine.abort("fr")
        assert isinstance(french.fault, Aborted) and engine.unfinished == 1
        engine.abort("ja")
        assert isinstance(japanese.fault, Aborted) and engine.unfinished == 0
        again = RecordingSink().submit(engine, job("ja", target="ja", utterance="u"))
        inner.release()
        await again.over.wait()
        assert again.text == "[ja] [en] guten Tag"


async def test_an_abort_in_the_second_step_stops_that_one() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        await translated(engine, job("first", utterance="u"))
        inner.hold()
        taken = RecordingSink().submit(engine, job("fr", utterance="u"))
        await inner.step()
        engine.abort("fr")
        assert isinstance(taken.fault, Aborted) and list(inner.aborted) == ["fr"]
        assert engine.unfinished == 0 and taken.text == "[fr]"


async def test_a_first_step_that_fails_fails_all_who_wait_for_it_and_is_made_again_later() -> None:
    inner = Bridge(fault=failing(JobFault("No.", ErrorCode.REJECTED)))
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        both = [
            RecordingSink().submit(engine, job(lang, target=lang, utterance="u"))
            for lang in ("fr", "ja")
        ]
        for taken in both:
            await taken.over.wait()
            assert taken.fault is not None and taken.fault.code is ErrorCode.REJECTED
        assert await translated(engine, job("again", utterance="u")) == "[fr] [en] guten Tag"


async def test_a_failure_that_leads_to_the_end_of_another_waiting_job_is_no_fault() -> None:
    inner = Bridge(fault=failing(JobFault("No.", ErrorCode.REJECTED)))
    engine = PivotEngine(inner, "en", RULES)

    class Withdrawing(RecordingSink):
        def end(self, fault: EngineFault | None) -> None:
            super().end(fault)
            engine.abort("ja")

    async with started(engine):
        french = Withdrawing().submit(engine, job("fr", utterance="u"))
        japanese = RecordingSink().submit(engine, job("ja", target="ja", utterance="u"))
        await french.over.wait()
        assert isinstance(japanese.fault, Aborted)


async def test_tokens_of_a_first_step_are_counted_once() -> None:
    engine = PivotEngine(Bridge(), "en", RULES)
    async with started(engine):
        counts = [
            sum(
                chunk.tokens
                for chunk in await chunks(engine, job(lang, target=lang, utterance="u"))
            )
            for lang in ("fr", "ja")
        ]
        assert counts == [3 + 4, 4]
        await chunks(engine, job("en", "ja", target="en", utterance="v"))
        shared = await chunks(engine, job("2", "ja", utterance="v"))
        assert sum(chunk.tokens for chunk in shared) == 3, "the English caption had its own"


async def test_a_dead_engine_fails_both_steps_at_once() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        inner.hold()
        taken = RecordingSink().submit(engine, job())
        inner.die()
        await taken.over.wait()
        assert isinstance(taken.fault, EngineGone)
        assert engine.health is Health.DEAD and not engine.serves("de", "fr")
        with pytest.raises(EngineFault):
            await chunks(engine, job("2"))


async def test_a_fallback_that_lacks_a_pair_translates_it_in_two_steps() -> None:
    first, second = ScriptedEngine(languages=("en", "de", "fr")), Bridge()
    inner = with_spare(first, second)
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        await settle()
        assert await translated(engine, job()) == "[fr] guten Tag"
        assert not engine.profile.pivots("de", "fr")
        first.die()
        inner.update()
        assert engine.serves("de", "fr") and engine.substitute == "scripted"
        assert await translated(engine, job("2")) == "[fr] [en] guten Tag"


async def test_changes_of_the_engine_inside_are_passed_on() -> None:
    told = []
    engine = PivotEngine(with_spare(Bridge(), Bridge()), "en", RULES)
    engine.changed = lambda: told.append("changed")
    engine.changed()
    assert told == ["changed"]
    plain = PivotEngine(Bridge(), "en", RULES)
    assert plain.substitute is None and plain.lanes is None
    assert list(plain.parts) == ["scripted"]
