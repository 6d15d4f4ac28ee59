"""Tests of long texts in pieces.

``tests/text/test_sentences.py`` tests where a text may be split.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Literal

import msgspec
import pytest
from msgspec.structs import replace

from gateway.engines.base.engine import Aborted, PullEngine
from gateway.engines.base.service import Health
from gateway.engines.profiles import Profile
from gateway.engines.scripted import ScriptedEngine
from gateway.engines.wrappers.piecewise import (
    WHOLE_TEXT_WEIGHT,
    WORD_MOST,
    PiecewiseEngine,
    split_text,
)
from gateway.errors import EngineFault, ErrorCode, Rejected
from gateway.job import Chunk, Job

SENTENCE = "This is one of the sentences of a long text that somebody reads out."
PARTS = ("one", "two", "three", "four", "five", "six")
LONG = " ".join(f"{SENTENCE[:-1]}, part {part}." for part in PARTS)


class SentenceModel(PullEngine, ScriptedEngine):
    """An engine that repeats each text in capitals, in two chunks, and keeps its jobs.

    ``room`` is the most characters of a text; a text with ``bad`` in it is rejected.
    """

    def __init__(
        self,
        *,
        kind: Literal["ids", "chat"] = "ids",
        room: int = 10_000,
        bad: str = "\0",
        flags: Iterable[tuple[str, ...]] = (),
    ) -> None:
        super().__init__(languages=("en", "de", "ja"))
        self._health = Health.READY
        self._profile = Profile(name="sentences", kind=kind, languages=("en", "de", "ja"))
        self.jobs: list[Job] = []
        self.room = room
        self.bad = bad
        self.flags = deque(flags)

    async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
        self.jobs.append(job)
        if len(job.text) > self.room:
            raise EngineFault("No room.", ErrorCode.TOO_LONG)
        half = len(job.text) // 2
        yield Chunk(job.text[:half].upper())
        if self.bad in job.text:
            raise Rejected("loop", "It loops.")
        yield Chunk(job.text[half:].upper(), flags=self.flags.popleft() if self.flags else ())


def job(text: str, *, partial: bool = False, target: str = "de", prefix: str = "") -> Job:
    return Job(id="j", text=text, source="en", target=target, partial=partial, prefix=prefix)


async def read(engine: PiecewiseEngine, job: Job) -> list[Chunk]:
    async def all() -> list[Chunk]:
        async with asyncio.timeout(20), aclosing(engine.translate(job)) as chunks:
            return [chunk async for chunk in chunks]

    return await all()


def shown(chunks: list[Chunk]) -> str:
    """Return the text after all resets."""
    text = ""
    for chunk in chunks:
        text = chunk.text if chunk.reset else text + chunk.text
    return text


def texts(model: SentenceModel) -> list[str]:
    return [job.text for job in model.jobs]


async def test_token_ids_are_passed_on_for_the_first_piece_only() -> None:
    class Numbered(SentenceModel):
        async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
            async with aclosing(super().generate(job)) as chunks:
                async for chunk in chunks:
                    yield msgspec.structs.replace(chunk, ids=(len(self.jobs),))

    chunks = await read(PiecewiseEngine(Numbered()), job(SENTENCE))
    assert [chunk.ids for chunk in chunks] == [(1,), (1,)]
    chunks = await read(PiecewiseEngine(Numbered()), job(LONG))
    assert [chunk.ids for chunk in chunks] == [(1,), (1,), *[()] * (len(chunks) - 2)]


async def test_each_piece_gets_the_draft_from_where_the_pieces_before_it_ended() -> None:
    model = SentenceModel()
    engine = PiecewiseEngine(model)
    draft = LONG.upper()[:-9]
    await read(engine, replace(job(LONG), draft=draft, prefix_ids=(1, 2)))
    length = len(SENTENCE) + len(", part one ")
    assert (model.jobs[0].draft, model.jobs[0].prefix_ids) == (draft, (1, 2))
    assert (model.jobs[1].draft, model.jobs[1].prefix_ids) == (draft[length:], ())
    model.jobs.clear()
    await read(engine, replace(job(LONG), draft="SOMETHING ELSE"))
    assert [one.draft for one in model.jobs] == ["SOMETHING ELSE", *[""] * 5]


async def test_all_of_every_piece_is_needed() -> None:
    model = SentenceModel()
    engine = PiecewiseEngine(model)
    await read(engine, replace(job(LONG), needed=9))
    assert [one.needed for one in model.jobs] == [0] * 6
    await read(engine, replace(job("Short."), needed=9))
    assert model.jobs[-1].needed == 9


async def test_checked_drafts_of_all_pieces_are_counted() -> None:
    class Checking(SentenceModel):
        async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
            yield Chunk(job.text, 1, drafted=4, accepted=2)

    chunks = await read(PiecewiseEngine(Checking()), job(LONG))
    assert sum(chunk.drafted for chunk in chunks) == 24
    assert sum(chunk.accepted for chunk in chunks) == 12


async def test_a_text_of_a_few_sentences_is_translated_whole() -> None:
    model = SentenceModel()
    text = f"{SENTENCE} {SENTENCE}"
    assert shown(await read(PiecewiseEngine(model), job(text))) == text.upper()
    assert texts(model) == [text]


async def test_a_long_text_is_translated_sentence_by_sentence_into_one_stream() -> None:
    model = SentenceModel()
    chunks = await read(PiecewiseEngine(model), job(LONG))
    assert shown(chunks) == LONG.upper()
    assert not any(chunk.reset for chunk in chunks)
    assert len(texts(model)) == 6
    assert {job.id for job in model.jobs} == {"j"}


async def test_japanese_sentences_are_joined_without_spaces_and_lines_stay_lines() -> None:
    chunks = await read(PiecewiseEngine(SentenceModel()), job(LONG, target="ja"))
    assert "PART ONE.THIS" in shown(chunks)
    chunks = await read(
        PiecewiseEngine(SentenceModel()), job(LONG.replace(". ", ".\n"), target="ja")
    )
    assert "PART ONE.\nTHIS" in shown(chunks)


async def test_only_the_last_piece_of_a_growing_utterance_still_grows() -> None:
    model = SentenceModel()
    await read(PiecewiseEngine(model), job(LONG, partial=True))
    assert [job.partial for job in model.jobs] == [False] * 5 + [True]


async def test_flags_that_come_without_text_are_told_at_the_end_with_the_counts() -> None:
    class Unsure(SentenceModel):
        async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
            yield Chunk(job.text.upper(), ids=(1,))
            yield Chunk("", 1, flags=("unsure",), ids=(2,))

    (first, last) = await read(PiecewiseEngine(Unsure()), job("some words"))
    assert first == Chunk("SOME WORDS", ids=(1,))
    assert last == Chunk("", 1, flags=("unsure",), ids=(2,))


async def test_pieces_are_right_together_with_the_product_of_their_probabilities() -> None:
    class Unsure(SentenceModel):
        async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
            yield Chunk(job.text.upper(), p=0.5)

    chunks = await read(PiecewiseEngine(Unsure()), job(LONG))
    assert [chunk.p for chunk in chunks[:-1]] == [1.0] * (len(chunks) - 1)
    assert chunks[-1].p == 0.5**6


async def test_the_probability_of_a_voided_attempt_does_not_count() -> None:
    class TwoAttempts(SentenceModel):
        async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
            yield Chunk("a first attempt", p=0.25)
            yield Chunk(job.text.upper(), reset=True, p=0.5)

    chunks = await read(PiecewiseEngine(TwoAttempts()), job("some words"))
    assert chunks[-1].p == 0.5


async def test_a_text_without_punctuation_is_split_at_spaces_and_nothing_is_lost() -> None:
    model = SentenceModel()
    text = "some more words " * 125
    assert shown(await read(PiecewiseEngine(model), job(text))).split() == text.upper().split()
    assert max(map(len, texts(model))) <= WHOLE_TEXT_WEIGHT


async def test_a_long_text_is_split_by_the_rules_of_its_language() -> None:
    model = SentenceModel()
    text = "Wir sehen uns am 13. Oktober bzw. am 3. Mai. Das gilt u. a. für Dr. Meyer. " * 5
    await read(PiecewiseEngine(model), replace(job(text), source="de"))
    assert set(texts(model)) == {
        "Wir sehen uns am 13. Oktober bzw. am 3. Mai.",
        "Das gilt u. a. für Dr. Meyer.",
    }


def test_texts_in_dense_scripts_are_split_earlier() -> None:
    assert [len(piece) for piece, _ in split_text("会" * 200, WHOLE_TEXT_WEIGHT, "zh")] == [
        80,
        80,
        40,
    ]


async def test_a_piece_that_is_too_long_for_the_model_is_halved_until_it_fits() -> None:
    model = SentenceModel(room=10)
    text = "ab" * 20
    assert shown(await read(PiecewiseEngine(model), job(text))).replace(" ", "") == text.upper()
    assert [len(text) for text in texts(model)] == [40, 20, 10, 10, 20, 10, 10]


async def test_a_text_without_a_letter_is_its_own_translation() -> None:
    model = SentenceModel()
    for text in ("👍🏽 🎉", "?!", "12,5 + 3", "😀" * 2000):
        assert await read(PiecewiseEngine(model), job(text)) == [Chunk(text, 0)]
    assert not model.jobs


async def test_a_text_that_is_too_long_in_any_split_is_refused() -> None:
    model = SentenceModel(room=0)
    with pytest.raises(EngineFault) as caught:
        await read(PiecewiseEngine(model), job("word " * 400))
    assert caught.value.code is ErrorCode.TOO_LONG
    assert len(model.jobs) < 10


@pytest.mark.parametrize("prefix", ["", "so"])
async def test_a_word_that_no_model_can_know_is_not_given_to_it(prefix: str) -> None:
    model = SentenceModel()
    asked = job("see " + "a" * (WORD_MOST + 1), prefix=prefix)
    with pytest.raises(EngineFault) as caught:
        await read(PiecewiseEngine(model), asked)
    assert caught.value.code is ErrorCode.TOO_LONG
    assert model.jobs == []


@pytest.mark.parametrize("text", ["a" * WORD_MOST, "会" * 80, "https://a.example/" + "a1/" * 50])
async def test_long_words_addresses_and_texts_without_spaces_are_translated(text: str) -> None:
    assert shown(await read(PiecewiseEngine(SentenceModel()), job(text))) == text.upper()


async def test_a_rejected_long_piece_is_voided_and_translated_in_halves() -> None:
    model = SentenceModel(bad="loop it, and then it loops")
    text = (
        f"{LONG} They say the words of a loop it, and then it loops no more, so they hope at least."
    )
    chunks = await read(PiecewiseEngine(model), job(text))
    assert shown(chunks) == text.upper()
    assert sum(chunk.reset for chunk in chunks) == 1


async def test_a_rejected_short_piece_ends_the_job() -> None:
    with pytest.raises(Rejected):
        await read(PiecewiseEngine(SentenceModel(bad="loop")), job(f"{LONG} A loop."))


async def test_a_second_attempt_at_a_piece_keeps_the_pieces_before_it() -> None:
    class Twice(SentenceModel):
        async def generate(self, job: Job) -> AsyncGenerator[Chunk]:
            if job.text.endswith("part four."):
                yield Chunk("nonsense")
                yield Chunk(job.text[:1].upper(), reset=True)
                yield Chunk(job.text[1:].upper())
                return
            async with aclosing(super().generate(job)) as chunks:
                async for chunk in chunks:
                    yield chunk

    assert shown(await read(PiecewiseEngine(Twice()), job(LONG))) == LONG.upper()


async def test_flags_of_all_pieces_are_on_the_last_chunk_once() -> None:
    model = SentenceModel(flags=[("numbers",), (), ("url",), ("numbers",)])
    chunks = await read(PiecewiseEngine(model), job(LONG))
    assert chunks[-1].flags == ("numbers", "url")
    assert not any(chunk.flags for chunk in chunks[:-1])


@pytest.mark.parametrize(
    ("model", "job"),
    [(SentenceModel(kind="chat"), job(LONG)), (SentenceModel(), job(LONG, prefix="DIES"))],
    ids=["a model that is prompted", "a forced prefix"],
)
async def test_a_text_is_not_split_with_a_prompted_model_or_a_forced_prefix(
    model: SentenceModel, job: Job
) -> None:
    await read(PiecewiseEngine(model), job)
    assert model.jobs == [job]


async def test_an_abort_between_two_pieces_is_not_lost() -> None:
    model = SentenceModel()
    engine = PiecewiseEngine(model)

    with pytest.raises(Aborted):
        async with asyncio.timeout(20), aclosing(engine.translate(job(LONG))) as chunks:
            async for chunk in chunks:
                if chunk == Chunk(" ", 0):
                    engine.abort("j")
    assert len(model.jobs) == 1


async def test_pieces_have_all_fields_of_the_job_but_the_text() -> None:
    model = SentenceModel()
    given = msgspec.structs.replace(job(LONG), topic="birds", context=(("a", "b"),))
    await read(PiecewiseEngine(model), given)
    assert {msgspec.structs.replace(one, text=LONG) for one in model.jobs} == {given}
