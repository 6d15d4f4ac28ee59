"""Tests of streaming by the embedded engine, with tiny models."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest

from gateway.engines import profiles
from gateway.engines.base.tokenizer import Vocabulary
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.engines.guards.complete_output import Guard
from gateway.engines.profiles import Output
from gateway.engines.registry import EMBEDDED
from gateway.errors import EngineFault, ErrorCode
from gateway.job import Chunk, Job
from tests.engines.ctranslate2_factory import make_llama, make_marian, make_nllb
from tests.engines.puppet import END, Puppet
from tests.engines.reading import TEXT, chunks, job, read, started

pytest.importorskip("ctranslate2")
pytest.importorskip("sentencepiece")

Make = Callable[..., CTranslate2Engine]

HESITANT = (
    "あー、そして、あの、ボタンは、えー、ゴムで作られると思います。",
    "あー、画面に、えー、絵を描いて、あー、説明します。",
)
"""Lines in which the included model would mark false starts, as its transcripts do."""


async def test_each_token_is_sent_before_the_next_is_decoded(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir)

    async with started(engine):
        async with aclosing(engine.translate(job())) as stream:
            for text in ("Guten", " Morgen", "."):
                puppet.token(text)
                assert await anext(stream) == Chunk(text, 1, ids=(len(text),))
            assert [chunk async for chunk in stream] == []
        assert engine.unfinished == 0


async def test_a_token_without_text_is_counted_with_the_next_that_has_some(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir)

    async with started(engine):
        for text in ("", "", "😀."):
            puppet.token(text)
        found = await chunks(engine, job())
        assert found == [Chunk("😀.", 3, ids=(0, 0, 2))]


async def test_an_incomplete_character_is_sent_at_the_end(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir)
    puppet.rest = "\ufffd"

    async with started(engine):
        puppet.token("Ja.")
        assert await read(engine, job()) == "Ja.\ufffd"


async def test_an_unsure_output_is_flagged_at_its_end(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir)
    puppet.unsure, puppet.p = True, 0.25

    async with started(engine):
        puppet.token("Ja.")
        found = await chunks(engine, job())
        assert "".join(chunk.text for chunk in found) == "Ja."
        assert (found[-1].flags, found[-1].p) == ((Guard.UNSURE,), 0.25)


async def test_a_probability_that_comes_after_the_text_is_told(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir)
    puppet.p = 0.75

    async with started(engine), aclosing(engine.translate(job())) as output:
        puppet.token("Ja")
        assert await anext(output) == Chunk("Ja", ids=(2,))
        puppet.token(END)
        assert [(chunk.text, chunk.p) async for chunk in output] == [("", 0.75)]


@pytest.mark.parametrize("search", [False, True])
async def test_the_included_model_writes_no_marks_of_transcripts(search: bool) -> None:
    engine = CTranslate2Engine(EMBEDDED)
    async with started(engine):
        for text in HESITANT:
            made = await read(
                engine, Job(id="a", text=text, source="ja", target="en", search=search)
            )
            assert made and not set(made) & set(engine.profile.unwritten)


@pytest.mark.parametrize("make", [make_llama, make_marian, make_nllb])
async def test_the_same_text_is_translated_in_the_same_way_every_time(
    make: Make, dir: Path
) -> None:
    engine = make(dir)

    async with started(engine):
        first = await read(engine, job())
        assert first
        assert await read(engine, job()) == first
        assert engine.unfinished == 0


@pytest.mark.parametrize("make", [make_llama, make_marian, make_nllb])
async def test_an_output_without_end_ends_normally_at_the_length_limit(
    make: Make, dir: Path
) -> None:
    profile = msgspec.structs.replace(make(dir).profile, output=Output(cap=7))
    engine = make(dir, profile)

    async with started(engine):
        assert sum(chunk.tokens for chunk in await chunks(engine, job())) == 7


async def test_ids_of_a_forced_prefix_are_continued_exactly_where_they_end(dir: Path) -> None:
    engine = make_llama(dir)

    async with started(engine):
        import ctranslate2 as ct2

        vocabulary = Vocabulary.load(dir / "embedded")
        ids = vocabulary.encode(engine.profile.prompt(job()))
        model = next((dir / "cache").iterdir())
        generator = ct2.Generator(str(model), compute_type="int8")
        result = generator.generate_batch(
            [[vocabulary.token(id) for id in ids]], max_length=20, include_prompt_in_result=False
        )
        whole = result[0].sequences_ids[0]
        seen = vocabulary.detokenizer()
        texts = [seen.push(id) for id in whole]
        prefix = "".join(texts[:5])
        found = await chunks(engine, job(prefix=prefix, prefix_ids=tuple(whole)))
        assert "".join(chunk.text for chunk in found).startswith("".join(texts[5:]))
        assert [id for chunk in found for id in chunk.ids][: len(whole)] == whole


async def test_a_prefix_that_is_the_whole_translation_is_followed_by_no_text(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir)

    async with started(engine):
        puppet.token(END)
        assert await chunks(engine, job(prefix="Guten Morgen!")) == []


@pytest.mark.parametrize("make", [make_llama, make_marian, make_nllb])
async def test_a_forced_prefix_changes_the_output_and_is_not_repeated(
    make: Make, dir: Path
) -> None:
    engine = make(dir)

    async with started(engine):
        free = await read(engine, job())
        forced = await read(engine, job(prefix="Guten Morgen"))
        assert forced != free
        assert "Guten Morgen" not in forced


@pytest.mark.parametrize("make", [make_llama, make_marian])
async def test_a_second_attempt_gives_another_output(make: Make, dir: Path) -> None:
    engine = make(dir)

    async with started(engine):
        assert await read(engine, job(attempt=2)) != await read(engine, job())


async def test_tokens_that_come_while_the_loop_is_busy_arrive_as_one_chunk(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir)

    async with started(engine):
        async with aclosing(engine.translate(job())) as stream:
            puppet.token("Guten")
            assert await anext(stream) == Chunk("Guten", 1, ids=(5,))
            for text in (" Mor", "gen", "."):
                puppet.token(text)
            while engine.unfinished:
                time.sleep(0.001)  # noqa: ASYNC251  # the loop does not turn meanwhile
            assert [chunk async for chunk in stream] == [Chunk(" Morgen.", 3, ids=(4, 3, 1))]


async def test_a_text_longer_than_the_model_can_hold_is_a_fault_that_says_so(dir: Path) -> None:
    engine = make_llama(dir)

    async with started(engine):
        with pytest.raises(EngineFault, match="has room for 512") as caught:
            await read(engine, job(text=TEXT * 100))
        assert caught.value.code is ErrorCode.TOO_LONG


async def test_an_exception_of_the_model_is_a_fault_and_the_next_job_works(dir: Path) -> None:
    engine = make_marian(dir, msgspec.structs.replace(make_marian(dir).profile, max_input=10_000))

    async with started(engine):
        with pytest.raises(EngineFault, match=r"CTranslate2 failed .RuntimeError.\.$"):
            await read(engine, job(text=TEXT * 50))
        assert engine.unfinished == 0
        assert await read(engine, job())


async def test_a_profile_without_a_prompt_of_its_own_is_a_fault(dir: Path) -> None:
    engine = make_llama(dir, profiles.load("chat"))

    async with started(engine):
        with pytest.raises(EngineFault, match="server's chat template"):
            await read(engine, job())
