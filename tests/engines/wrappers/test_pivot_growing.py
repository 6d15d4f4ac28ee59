"""Growing texts in two steps."""

from __future__ import annotations

import asyncio
from typing import Any

from caption_gateway.testing.subject import RecordingSink
from gateway.core.streaming.stability import StabilityRules
from gateway.engines.wrappers.pivot import PivotEngine
from gateway.job import Chunk, Job
from tests.engines.reading import chunks, started
from tests.engines.wrappers.test_pivot import RULES, Bridge, job, translated

# --- growing texts -----------------------------------------------------------------------------


def first_steps(inner: Bridge) -> list[tuple[str, str]]:
    return [(one.text, one.prefix) for one in inner.given if one.target == "en"]


async def test_the_first_step_of_a_growing_text_begins_with_the_agreed_translation() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        for n, text in enumerate(("eins zwei", "eins zwei drei", "eins zwei drei vier")):
            await translated(engine, job(f"{n}", text, partial=True, utterance="u"))
        assert first_steps(inner) == [
            ("eins zwei", ""),
            ("eins zwei drei", ""),
            ("eins zwei drei vier", "[en] eins zwei"),
        ]


async def test_the_second_step_of_a_growing_text_gets_no_last_words() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        await translated(engine, job(text="eins zwei drei", partial=True, utterance="u"))
        second = inner.given[-1]
        assert (second.text, second.partial) == ("[en] eins zwei", True)


async def test_a_mask_for_readers_holds_back_at_most_four_words_of_the_first_step() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", StabilityRules(mask=9, early=0))
    async with started(engine):
        await translated(engine, job(text="a b c d e f", partial=True, utterance="u"))
        assert inner.given[-1].text == "[en] a b"


async def test_the_second_step_continues_what_readers_were_shown() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        grown = job(text="eins zwei drei", partial=True, utterance="u", prefix="[fr] [en]")
        assert await translated(engine, grown) == " eins zwei"
        assert inner.given[-1].prefix == "[fr] [en]"


async def test_each_step_has_its_own_last_output_as_its_draft() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        await translated(engine, job("1", "eins zwei", partial=True, utterance="u"))
        second: dict[str, Any] = {"draft": "[fr] [en]", "prefix_ids": (7,)}
        grown = job("2", "eins zwei drei", partial=True, utterance="u", draft_bias=0.3, **second)
        await translated(engine, grown)
        await translated(engine, job("3", "eins zwei drei", utterance="u", **second))
    drafts = [(one.draft, one.draft_bias, one.prefix_ids) for one in inner.given[2:]]
    assert drafts == [
        ("[en] eins zwei", RULES.bias, ()),
        ("[fr] [en]", 0.3, (7,)),
        ("[en] eins zwei drei", 0.0, ()),
        ("[fr] [en]", 0.0, (7,)),
    ]


async def test_the_work_on_both_steps_is_counted() -> None:
    class Checking(Bridge):
        def submit(self, job: Job, sink: Any) -> None:
            loop = asyncio.get_running_loop()
            loop.call_soon(sink.chunk, Chunk(job.target, 2, ids=(1,), drafted=5, accepted=3))
            loop.call_soon(sink.end, None)

    engine = PivotEngine(Checking(), "en", RULES)
    async with started(engine):
        assert await chunks(engine, job()) == [
            Chunk("fr", 4, ids=(1,), flags=("pivot:en",), drafted=10, accepted=6)
        ]


async def test_both_steps_of_a_finished_text_are_made_of_the_whole_text_anew() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        for n in range(3):
            await translated(engine, job(f"{n}", "eins zwei drei", partial=True, utterance="u"))
        found = await translated(engine, job("final", "eins zwei drei", utterance="u"))
        assert found == "[fr] [en] eins zwei drei"
        assert inner.given[-2].prefix == "" and not inner.given[-2].partial


async def test_words_that_were_changed_are_not_held_against_the_new_ones() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        for n, text in enumerate(("eins zwei", "eins zwei drei", "ein Zweig im Wind")):
            await translated(engine, job(f"{n}", text, partial=True, utterance="u"))
        assert first_steps(inner)[-1] == ("ein Zweig im Wind", "")


async def test_the_translation_of_an_older_text_that_comes_late_changes_nothing() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        inner.hold()
        late = RecordingSink().submit(engine, job("a", "eins zwei", partial=True, utterance="u"))
        await inner.step()  # the first word of the older text
        inner._holding = False
        for n, text in enumerate(("eins zwei drei", "eins zwei drei vier")):
            await translated(engine, job(f"{n}", text, partial=True, utterance="u"))
        inner.release()
        await late.over.wait()
        await translated(engine, job("b", "eins zwei drei vier fünf", partial=True, utterance="u"))
        assert first_steps(inner)[-1] == ("eins zwei drei vier fünf", "[en] eins zwei drei")


async def test_partials_in_the_pivot_language_serve_the_others_too() -> None:
    inner = Bridge()
    engine = PivotEngine(inner, "en", RULES)
    async with started(engine):
        await translated(engine, job("en", "eins zwei drei", "en", partial=True, utterance="u"))
        await translated(engine, job("fr", "eins zwei drei", partial=True, utterance="u"))
        assert [one.text for one in inner.given] == ["eins zwei drei", "[en] eins zwei"]
