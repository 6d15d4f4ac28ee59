"""Settings that all architectures share, and settings in which they differ."""

from __future__ import annotations

import tomllib

from msgspec.structs import replace

from benchmarks.journey.plan import ARCHITECTURES, Plan, invented, name
from gateway.engines.profiles import Output, Profile

PLAN = Plan(architecture="a", backend="vllm", model="/models/one", share=0.8)


def engine(letter: str, **more: object) -> dict[str, object]:
    return replace(PLAN, architecture=letter, **more).engine()


def test_all_have_the_same_engine_but_for_what_each_is_about() -> None:
    for letter in ARCHITECTURES:
        same = engine(letter)
        for one in ("max_num_seqs", "gpu_memory_utilization", "max_num_batched_tokens"):
            same.pop(one, None)
        assert same == {"model": "/models/one", "dtype": "auto", "load_format": "auto"}


def test_one_worker_makes_one_sequence_and_a_batch_sixteen() -> None:
    assert [engine(letter)["max_num_seqs"] for letter in "abcdef"] == [1, 1, 16, 64, 16, 16]
    assert [replace(PLAN, architecture=letter).batch for letter in "abc"] == [1, 1, 16]


def test_two_workers_share_the_memory_of_the_device() -> None:
    assert [engine(letter)["gpu_memory_utilization"] for letter in "abc"] == [0.8, 0.4, 0.8]
    assert [replace(PLAN, architecture=letter).workers for letter in "abc"] == [1, 2, 1]


def test_only_the_last_of_the_engines_limits_the_tokens_of_a_step() -> None:
    assert engine("e")["max_num_batched_tokens"] == 8192
    assert "max_num_batched_tokens" not in engine("d")


def test_arguments_of_ones_own_go_over_all_others() -> None:
    found = engine("d", extra={"enforce_eager": True, "max_num_seqs": 32}, max_model_len=512)
    assert (found["enforce_eager"], found["max_num_seqs"]) == (True, 32)
    assert found["max_model_len"] == 512


def test_invented_weights_make_as_many_tokens_as_the_text_has_or_so_many_less() -> None:
    assert replace(PLAN, load_format="dummy").dummy and not PLAN.dummy
    for less in (0, 40):
        loaded = tomllib.loads(invented(less))
        assert loaded["template"] == [{"text": "{text}"}]
        profile = Profile(
            name="dummy",
            kind="raw",
            languages=tuple(loaded["languages"]),
            output=Output(**loaded["output"]),
        )
        assert [profile.max_tokens(n + less) for n in (10, 64, 200)] == [10, 64, 200]


def test_on_a_cpu_stand_ins_have_names_of_their_own() -> None:
    assert "AsyncLLMEngine" in name("d", "vllm") and "AsyncLLMEngine" in name("e", "vllm")
    assert "AsyncLLMEngine" not in name("d", "embedded") + name("e", "embedded")
    assert name("f", "vllm") == name("f", "embedded")
