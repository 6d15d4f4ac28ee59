"""Tests of drafts that are checked: the output is that of greedy decoding, whatever the draft."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.engines import profiles
from gateway.engines.base.tokenizer import Vocabulary
from gateway.engines.ctranslate2 import model as checkpoint
from gateway.engines.ctranslate2.model import accepted, log_probs
from gateway.engines.profiles import Sampling
from gateway.job import Job
from tests.engines.ctranslate2.test_model import JOBS, OPTIONS, Reader, doubt
from tests.support import models

pytest.importorskip("ctranslate2")

EMBEDDED = profiles.load("embedded")
JOB = Job(id="1", text="Good morning everybody", source="en", target="de")
WORDS = tuple(range(40, 52))
"""Ids that the scripted model says."""


def scores(*rows: dict[int, float]) -> Any:
    """Return logits of eight tokens, with the probabilities of some in each row."""
    found = np.full((len(rows), 8), 1e-9)
    for row, known in zip(found, rows, strict=True):
        for id, probability in known.items():
            row[id] = probability
    return np.log(found)


# --- how much is accepted


def test_the_longest_beginning_that_greedy_decoding_would_repeat_is_accepted() -> None:
    rows = scores({1: 0.9}, {2: 0.6, 3: 0.4}, {4: 0.7}, {5: 1.0})
    assert accepted(rows, (1, 2, 4)) == (3, 5)
    assert accepted(rows, (1, 3, 4)) == (1, 2)
    assert accepted(rows, (6, 2, 4)) == (0, 1)


def test_a_bias_accepts_a_token_that_is_nearly_as_probable_as_the_best() -> None:
    rows = scores({1: 0.55, 2: 0.45}, {3: 0.7, 4: 0.3}, {5: 1.0})
    assert accepted(rows, (2, 4), 0.0) == (0, 1)
    assert accepted(rows, (2, 4), 0.2) == (1, 3)
    assert accepted(rows, (2, 4), 0.5) == (2, 5)


def test_an_empty_draft_accepts_nothing_and_names_the_first_token() -> None:
    assert accepted(scores({6: 1.0}), (), 0.2) == (0, 6)


def test_each_token_has_a_log_probability() -> None:
    rows = scores({1: 0.5, 2: 0.5}, {3: 0.25, 4: 0.75}, {5: 1.0})
    assert log_probs(rows, (2, 3)) == pytest.approx(np.log([0.5, 0.25]), rel=1e-6)
    assert log_probs(rows + 100.0, (2, 3)) == pytest.approx(np.log([0.5, 0.25]), rel=1e-6)
    assert log_probs(rows, ()) == []


# --- a model with a script


class Kind(enum.Enum):
    """Stands for CTranslate2's types of numbers."""

    float32 = 0
    bfloat16 = 1


class View:
    """Stands for a `ctranslate2.StorageView`, which numpy reads if its type is float32."""

    def __init__(self, values: Any, dtype: Kind) -> None:
        self.values, self.dtype = values, dtype

    def to(self, dtype: Kind) -> View:
        return View(self.values, dtype)

    def __array__(self, *_: Any, **__: Any) -> Any:
        assert self.dtype is Kind.float32
        return self.values


class Script:
    """Stands for a `ctranslate2.Generator`; the last tokens alone decide the next one."""

    def __init__(self, vocabulary: Vocabulary, seed: int, dtype: Kind = Kind.float32) -> None:
        self.vocabulary, self.seed, self.dtype = vocabulary, seed, dtype
        self.checks = self.steps = 0

    def following(self, tokens: Sequence[str]) -> tuple[int, float]:
        """Return the most probable next token, and its logit; all other tokens have 0."""
        end = self.vocabulary.control("</s>")
        assert end is not None
        state = crc32(repr((self.seed, tokens[-3:], len(tokens))).encode())
        choice = state % (len(WORDS) + 1)
        return WORDS[choice] if choice < len(WORDS) else end, 1.0 + state % 7

    def forward_batch(self, inputs: Sequence[list[str]]) -> View:
        self.checks += 1
        width = self.vocabulary.tokenizer.get_vocab_size()
        found = np.zeros((len(inputs), max(map(len, inputs)), width), dtype=np.float32)
        for rows, tokens in zip(found, inputs, strict=True):
            for at in range(len(tokens)):
                id, logit = self.following(tokens[: at + 1])
                rows[at, id] = logit
        return View(found, self.dtype)

    def generate_batch(
        self,
        inputs: Sequence[list[str]],
        *,
        max_length: int,
        end_token: list[int],
        callback: Callable[[Any], bool],
        **_: Any,
    ) -> None:
        for number, prompt in enumerate(inputs):
            tokens = list(prompt)
            for left in range(max_length, 0, -1):
                id, logit = self.following(tokens)
                others = self.vocabulary.tokenizer.get_vocab_size() - 1
                log_prob = logit - math.log(math.exp(logit) + others)
                last = id in end_token or left == 1
                self.steps += 1
                result = SimpleNamespace(
                    batch_id=number, token_id=id, is_last=last, log_prob=log_prob
                )
                if callback(result) or last:
                    break
                tokens.append(self.vocabulary.token(id))


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return Vocabulary.load(models.tiny_llama(tmp_path_factory.mktemp("words")))


def decoded(generator: Script, *jobs: Job) -> list[Reader]:
    readers = [Reader(job) for job in jobs]
    checkpoint.DecoderModel(generator, generator.vocabulary).decode(readers, EMBEDDED)
    assert all(reader.ends == 1 for reader in readers)
    return readers


def text(reader: Reader) -> str:
    return "".join(reader.texts)


def drafted(words: Vocabulary, ids: Sequence[int]) -> Job:
    draft = words.tokenizer.decode(list(ids))
    return replace(JOB, draft=draft, prefix_ids=tuple(ids))


@given(data=st.data(), seed=st.integers(0, 999))
def test_the_output_is_the_same_with_any_draft(
    words: Vocabulary, data: st.DataObject, seed: int
) -> None:
    (free,) = decoded(Script(words, seed), JOB)
    kept = data.draw(st.integers(0, len(free.ids)))
    other = data.draw(st.lists(st.sampled_from(WORDS), max_size=6))
    (reader,) = decoded(Script(words, seed), drafted(words, [*free.ids[:kept], *other]))
    assert (text(reader), reader.ids) == (text(free), free.ids)


@given(seed=st.integers(0, 99), bias=st.sampled_from([0.0, 0.2]))
def test_jobs_with_and_without_a_draft_share_a_batch(
    words: Vocabulary, seed: int, bias: float
) -> None:
    first, second = JOB, replace(JOB, text="The report is not finished yet.")
    free = decoded(Script(words, seed), first, second)
    batch = [replace(drafted(words, free[0].ids), draft_bias=bias), second]
    found = decoded(Script(words, seed), *batch)
    assert [(text(one), one.ids) for one in found] == [(text(one), one.ids) for one in free]


def seed_of(words: Vocabulary, tokens: int) -> int:
    """Return the seed of a script whose output has at least so many tokens and an end."""
    for seed in range(1000):
        (reader,) = decoded(Script(words, seed), JOB)
        draft = drafted(words, reader.ids)
        if tokens <= len(reader.ids) < 20 and words.forced(draft.draft, reader.ids) == reader.ids:
            return seed
    raise AssertionError("there is no such script")


def test_a_draft_that_is_the_whole_output_costs_no_decoding(words: Vocabulary) -> None:
    seed = seed_of(words, 6)
    (free,) = decoded(Script(words, seed), JOB)
    again = Script(words, seed)
    (reader,) = decoded(again, drafted(words, free.ids))
    assert reader.checked == (len(free.ids), len(free.ids))
    assert (again.checks, again.steps) == (1, 0)


def test_accepted_text_comes_in_one_piece_before_the_rest(words: Vocabulary) -> None:
    seed = seed_of(words, 6)
    (free,) = decoded(Script(words, seed), JOB)
    (reader,) = decoded(Script(words, seed), drafted(words, free.ids[:4]))
    assert reader.checked == (4, 4)
    assert text(free).startswith(reader.texts[0])
    assert len(reader.texts) < len(free.texts)


def test_a_stopped_job_is_not_decoded_after_its_check(words: Vocabulary) -> None:
    seed = seed_of(words, 6)
    (free,) = decoded(Script(words, seed), JOB)
    script = Script(words, seed)
    reader = Reader(drafted(words, free.ids[:4]), stop_after=1)
    checkpoint.DecoderModel(script, words).decode([reader], EMBEDDED)
    assert (reader.ends, script.steps) == (1, 0)


def test_the_length_limit_counts_accepted_tokens(words: Vocabulary) -> None:
    profile = replace(EMBEDDED, output=replace(EMBEDDED.output, factor=0.0, extra=5))
    seed = seed_of(words, 6)
    (free,) = decoded(Script(words, seed), JOB)
    for count in (3, 5, len(free.ids)):
        reader = Reader(drafted(words, free.ids[:count]))
        checkpoint.DecoderModel(Script(words, seed), words).decode([reader], profile)
        assert reader.ids == free.ids[:5]


def test_scores_of_less_precision_are_read_too(words: Vocabulary) -> None:
    seed = seed_of(words, 6)
    (free,) = decoded(Script(words, seed), JOB)
    (reader,) = decoded(Script(words, seed, Kind.bfloat16), drafted(words, free.ids))
    assert reader.ids == free.ids


@pytest.mark.parametrize("why", ["attempt", "sampled", "scores"])
def test_drafts_are_not_checked_where_that_does_not_pay(
    words: Vocabulary, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(words, 1)
    job, profile = drafted(words, WORDS), EMBEDDED
    if why == "attempt":
        job = replace(job, attempt=2)
    elif why == "sampled":
        profile = replace(EMBEDDED, attempts=(Sampling(temperature=0.5),))
    else:
        monkeypatch.setattr(checkpoint, "CHECKED_SCORES", 1000)
    reader = Reader(job)
    checkpoint.DecoderModel(script, words).decode([reader], profile)
    assert script.checks == 0
    assert reader.checked is None


# --- how sure the model is of an output


def bound_of_doubt(model: checkpoint.TranslationModel, job: Job) -> float:
    """Return the bound from which on the output of ``job`` counts as unsure."""
    low, high = -16.0, 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        reader = Reader(job)
        model.decode([reader], replace(EMBEDDED, unsure=doubt(middle)))
        low, high = (low, middle) if reader.unsure else (middle, high)
    return low


@pytest.mark.parametrize("other", [(), WORDS[:2]])
def test_accepted_tokens_count_for_how_sure_the_model_is_like_decoded_ones(
    words: Vocabulary, other: tuple[int, ...]
) -> None:
    seed = seed_of(words, 6)
    (free,) = decoded(Script(words, seed), JOB)
    script = Script(words, seed)
    model = checkpoint.DecoderModel(script, words)
    expected = bound_of_doubt(model, JOB)
    for count in (1, 4, len(free.ids)):
        job = drafted(words, [*free.ids[:count], *other])
        assert bound_of_doubt(model, job) == pytest.approx(expected, abs=1e-3)
    assert script.checks


def test_an_output_accepted_whole_has_the_same_flag_as_a_decoded_one(words: Vocabulary) -> None:
    seed = seed_of(words, 6)
    (free,) = decoded(Script(words, seed), JOB)
    bound = bound_of_doubt(checkpoint.DecoderModel(Script(words, seed), words), JOB)
    for least, unsure in ((bound - 0.01, False), (bound + 0.01, True), (None, False)):
        profile = replace(EMBEDDED, unsure=None if least is None else doubt(least))
        for job in (JOB, drafted(words, free.ids)):
            script, reader = Script(words, seed), Reader(job)
            checkpoint.DecoderModel(script, words).decode([reader], profile)
            assert reader.unsure is unsure
            assert bool(script.steps) is not bool(job.draft)


# --- a real model


def test_a_real_model_says_the_same_with_its_own_output_as_the_draft(tmp_path: Path) -> None:
    model = checkpoint.load(models.tiny_llama(tmp_path / "llama"), tmp_path / "cache", OPTIONS)
    for job in JOBS[:3]:
        free = Reader(job)
        model.decode([free], EMBEDDED)
        for count in (3, len(free.ids)):
            draft = "".join(free.texts)
            ids = tuple(free.ids[:count])
            reader = Reader(replace(job, draft=draft, prefix_ids=ids))
            model.decode([reader], EMBEDDED)
            assert text(reader) == text(free)
            assert reader.checked is not None and reader.checked[1] >= count - 1


def test_a_real_model_is_as_sure_of_an_accepted_output_as_of_a_decoded_one(tmp_path: Path) -> None:
    model = checkpoint.load(models.tiny_llama(tmp_path / "llama"), tmp_path / "cache", OPTIONS)
    (free,) = readers = [Reader(JOB)]
    model.decode(readers, EMBEDDED)
    draft = replace(JOB, draft=text(free), prefix_ids=tuple(free.ids))
    found, expected = bound_of_doubt(model, draft), bound_of_doubt(model, JOB)
    assert found == pytest.approx(expected, abs=0.01)
