"""Tests of the direct path of outputs, compared with vLLM's own path and its real processor.

There is no model and no EngineCore: the tests write the messages of EngineCore.
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.engines.vllm.compat import REPORT_INTERVAL_S, ThrottledStatLogger
from gateway.engines.vllm.outputs import TAIL, OutputFeed, why_unsupported
from tests.engines.vllm_factory import require
from tests.support.models import CONTROLS, tiny_llama

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]


class Receiver:
    """An `OutputReceiver` that keeps all calls."""

    def __init__(self, on_take: Callable[[], None] | None = None) -> None:
        self.takes: list[tuple[str, list[int]]] = []
        self.ends: list[str | Exception | None] = []
        self._on_take = on_take

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.takes)

    @property
    def ids(self) -> list[int]:
        return [id for _, ids in self.takes for id in ids]

    def on_output(self, text: str, ids: Sequence[int]) -> None:
        self.takes.append((text, list(ids)))
        if self._on_take is not None:
            self._on_take()

    def on_end(self, reason: str | None) -> None:
        self.ends.append(reason)

    def on_failure(self, exc: Exception) -> None:
        self.ends.append(exc)


class Half:
    """The front half of vLLM: an output processor with requests, and outputs for them."""

    def __init__(self, tokenizer: Any, feed: bool = True) -> None:
        from vllm.v1.engine.output_processor import OutputProcessor

        self.processor = OutputProcessor(tokenizer, log_stats=True)
        self.feed = OutputFeed(SimpleNamespace(output_processor=self.processor), tokenizer.decode)
        if not feed:
            del self.processor.process_outputs

    def add(self, name: str, prompt: list[int], **params: Any) -> Any:
        """Add a request, and return its collector."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine import EngineCoreRequest
        from vllm.v1.engine.output_processor import RequestOutputCollector

        request = EngineCoreRequest(
            request_id=f"{name}-internal",
            external_req_id=name,
            prompt_token_ids=prompt,
            mm_features=None,
            sampling_params=SamplingParams(output_kind=RequestOutputKind.DELTA, **params),
            pooling_params=None,
            arrival_time=0.0,
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
        )
        collector = RequestOutputCollector(RequestOutputKind.DELTA, request.request_id)
        self.processor.add_request(request, None, None, 0, collector)
        return collector

    def adopt(self, name: str, prompt: list[int], receiver: Receiver | None = None) -> Receiver:
        self.add(name, prompt)
        receiver = receiver or Receiver()
        assert self.feed.adopt(name, receiver)
        return receiver

    def step(self, *outputs: Any, at: float = 1.0, stats: Any = None) -> Any:
        return self.processor.process_outputs(list(outputs), at, stats)


def output(name: str, ids: list[int], reason: str | None = None, **fields: Any) -> Any:
    from vllm.v1.engine import EngineCoreOutput, FinishReason

    finish = None if reason is None else FinishReason[reason.upper()]
    return EngineCoreOutput(f"{name}-internal", ids, finish_reason=finish, **fields)


def began(name: str, ids: list[int], *times: float) -> Any:
    """Return fields of a first output: times of queueing and scheduling, prefill statistics."""
    from vllm.v1.engine import EngineCoreEvent, EngineCoreEventType
    from vllm.v1.metrics.stats import PrefillStats

    kinds = (EngineCoreEventType.QUEUED, EngineCoreEventType.SCHEDULED)
    events = [EngineCoreEvent(kind, time) for kind, time in zip(kinds, times, strict=True)]
    prefill = PrefillStats(num_prompt_tokens=9, num_computed_tokens=5, num_cached_tokens=4)
    return output(name, ids, events=events, prefill_stats=prefill)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a byte-level tokenizer, in which a character may be several tokens."""
    require()
    with warnings.catch_warnings():  # warnings of vLLM and torch do not concern these tests
        warnings.simplefilter("ignore")
        import_module("vllm.v1.engine.async_llm")
        from vllm.tokenizers import get_tokenizer

    return get_tokenizer(str(tiny_llama(tmp_path_factory.mktemp("feed") / "llama", head=32)))


@pytest.fixture
def half(tokenizer: Any) -> Half:
    return Half(tokenizer)


def own_way(
    tokenizer: Any, prompt: list[int], steps: list[list[int]], reason: str
) -> tuple[str, list[int], str]:
    """Return text, ids and end of a request as `AsyncLLM.generate` gets them."""
    half = Half(tokenizer, feed=False)
    collector = half.add("job", prompt)
    text, ids = "", []
    last = None
    for number, step in enumerate(steps):
        half.step(output("job", step, reason if number == len(steps) - 1 else None))
        got = collector.get_nowait()
        (last,) = got.outputs
        text += last.text
        ids += last.token_ids
    assert last is not None
    return text, ids, last.finish_reason


SIZE = 512
any_ids = st.integers(0, SIZE - 1)
prompts = st.lists(any_ids, min_size=1, max_size=3 * TAIL)
outputs = st.lists(st.lists(any_ids, min_size=1, max_size=4), min_size=1, max_size=12)
ends = st.sampled_from(["stop", "length"])


@given(prompts, outputs, ends)
@settings(max_examples=300)
def test_text_ids_and_end_are_those_of_vllms_own_path(
    tokenizer: Any, prompt: list[int], steps: list[list[int]], reason: str
) -> None:
    half = Half(tokenizer)
    receiver = half.adopt("job", prompt)
    for number, step in enumerate(steps):
        half.step(output("job", step, reason if number == len(steps) - 1 else None))
    assert (receiver.text, receiver.ids, *receiver.ends) == own_way(
        tokenizer, prompt, steps, reason
    )
    assert not half.processor.request_states
    assert not half.processor.external_req_ids


def test_text_arrives_in_the_step_that_brings_it(half: Half, tokenizer: Any) -> None:
    ids = tokenizer.encode("Guten Morgen", add_special_tokens=False)
    receiver = half.adopt("job", [1, 2, 3])
    for number, id in enumerate(ids, 1):
        half.step(output("job", [id]))
        assert len(receiver.takes) == number
    assert receiver.text == "Guten Morgen"


def test_several_ids_of_one_step_are_passed_on_together(half: Half, tokenizer: Any) -> None:
    ids = tokenizer.encode("Guten Morgen", add_special_tokens=False)
    receiver = half.adopt("job", [1, 2, 3])
    half.step(output("job", ids))
    assert receiver.takes == [("Guten Morgen", ids)]


def test_only_the_end_of_a_prompt_is_decoded(tokenizer: Any) -> None:
    """The whole prompt is decoded if its end has no text or ends inside a character."""
    decoded: list[list[int]] = []

    def decode(ids: list[int], **options: Any) -> str:
        decoded.append(ids)
        return str(tokenizer.decode(ids, **options))

    half = Half(tokenizer)
    half.feed._decode = decode
    text = tokenizer.encode("Good morning everybody, " * 20, add_special_tokens=False)
    kept = {}
    for name, prompt in (
        ("text", text),
        ("controls", text + [CONTROLS.index("<s>")] * TAIL),
        ("half", text + tokenizer.encode("早", add_special_tokens=False)[:1]),
    ):
        half.add(name, prompt)
        *_, state = half.processor.request_states.values()
        whole = state.detokenizer.stream
        assert half.feed.adopt(name, Receiver())
        kept[name] = state.detokenizer.stream is whole
    assert decoded[0] == text[-TAIL:]
    assert kept == {"text": False, "controls": True, "half": True}


def test_the_stop_token_is_counted_and_has_no_text(half: Half, tokenizer: Any) -> None:
    ids = tokenizer.encode("Guten Morgen", add_special_tokens=False)
    receiver = half.adopt("job", [1, 2, 3])
    half.step(output("job", [*ids, 7], "stop"))
    assert receiver.takes == [("Guten Morgen", [*ids, 7])]
    assert receiver.ends == ["stop"]


def test_other_requests_of_the_same_step_are_left_to_vllm(half: Half, tokenizer: Any) -> None:
    (id,) = tokenizer.encode("G", add_special_tokens=False)
    receiver = half.adopt("ours", [1, 2, 3])
    collector = half.add("foreign", [1, 2, 3])
    half.step(output("foreign", [id]), output("ours", [id]))
    assert receiver.text == "G"
    assert collector.get_nowait().outputs[0].text == "G"
    assert half.feed.outputs_fed == 1


def test_a_request_with_stop_strings_or_several_outputs_is_not_adopted(half: Half) -> None:
    half.add("stops", [1, 2, 3], stop=["."])
    half.add("no text", [1, 2, 3], detokenize=False)
    assert not half.feed.adopt("stops", Receiver())
    assert not half.feed.adopt("no text", Receiver())
    assert not half.feed.adopt("unknown", Receiver())


def test_output_before_a_request_was_adopted_is_not_lost(half: Half, tokenizer: Any) -> None:
    one, two = tokenizer.encode("GM", add_special_tokens=False)
    half.add("job", [1, 2, 3])
    half.step(output("job", [one]))
    receiver = Receiver()
    assert half.feed.adopt("job", receiver)
    half.step(output("job", [two], "length"))
    assert receiver.text == "GM"
    assert receiver.ends == ["length"]


def test_a_receiver_may_abort_its_request(half: Half) -> None:
    receiver = Receiver(lambda: half.processor.abort_requests(["job"], internal=False) and None)
    half.adopt("job", [1, 2, 3], receiver)
    done = half.step(output("job", [300], "length"))
    half.step(output("job", [301]))
    assert len(receiver.takes) == 1
    assert receiver.ends == ["abort"]
    assert not half.processor.request_states
    assert not done.reqs_to_abort


async def test_vllms_death_reaches_every_request(half: Half) -> None:
    receivers = [half.adopt(f"{n}", [1, 2, 3]) for n in range(3)]
    dead = RuntimeError("EngineCore died")

    half.processor.propagate_error(dead)
    await asyncio.sleep(0)
    assert [receiver.ends for receiver in receivers] == [[dead]] * 3


def test_an_output_that_cannot_be_passed_on_ends_its_request_alone(
    half: Half, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise LookupError

    bad = half.adopt("bad", [1, 2, 3], Receiver(fail))
    good = half.adopt("good", [1, 2, 3])
    collector = half.add("foreign", [1, 2, 3])
    done = half.step(output("bad", [300]), output("good", [300]), output("foreign", [300]))
    assert done.reqs_to_abort == ["bad-internal"]
    assert isinstance(bad.ends[0], LookupError)
    assert good.takes
    assert collector.get_nowait() is not None
    assert "could not be passed on" in caplog.text
    assert half.step(output("bad", [301]), output("good", [301])).reqs_to_abort == []


def test_vllms_statistics_of_a_request_are_those_of_its_own_path(tokenizer: Any) -> None:
    from vllm.v1.engine import EngineCoreEvent, EngineCoreEventType
    from vllm.v1.metrics.stats import IterationStats

    def told(half: Half) -> list[dict[str, Any]]:
        preempted = [EngineCoreEvent(EngineCoreEventType.PREEMPTED, 4.5)]
        steps = [
            (4.0, began("job", [300], 1.0, 3.0)),
            (5.0, output("job", [301, 302], events=preempted)),
            (7.0, output("job", [303], "length")),
        ]
        seen = []
        for at, step in steps:
            stats = IterationStats()
            stats.iteration_timestamp = at
            half.step(step, at=at, stats=stats)
            seen.append(vars(stats))
        return seen

    fed, own = Half(tokenizer), Half(tokenizer, feed=False)
    fed.adopt("job", list(range(9)))
    own.add("job", list(range(9)))
    ours, theirs = told(fed), told(own)
    for step in (*ours, *theirs):
        del step["inter_token_latencies_iter"]  # a figure for each token is not kept
    assert ours == theirs
    (finished,) = ours[-1]["finished_requests"]
    assert finished.num_generation_tokens == 4
    assert finished.queued_time == 2.0
    assert finished.prefill_time == 1.0
    assert finished.decode_time == 3.0


def test_this_vllm_is_supported_and_one_with_other_internals_is_not(tokenizer: Any) -> None:
    from vllm.v1.engine.async_llm import AsyncLLM

    processor = Half(tokenizer, feed=False).processor
    engine: Any = SimpleNamespace(output_processor=processor, add_request=AsyncLLM.add_request)
    assert why_unsupported(engine) is None

    processor.stream_interval = 4
    assert why_unsupported(engine) == "stream_interval is set"
    processor.stream_interval = 1
    engine.add_request = lambda request_id, prompt: None
    assert why_unsupported(engine) == "add_request has other arguments"
    engine.add_request = AsyncLLM.add_request

    def renamed(outputs: Any, stats: Any) -> None: ...

    processor.process_outputs = renamed
    assert why_unsupported(engine) == "process_outputs takes outputs, stats"
    del processor.process_outputs
    del processor.lora_states
    assert why_unsupported(engine) == "its output processor has no lora_states"


def test_vllms_output_task_calls_the_replaced_process_outputs(tokenizer: Any) -> None:
    """The task reads the attribute of the object at each call."""
    from vllm.v1.engine.async_llm import AsyncLLM

    assert "output_processor.process_outputs(" in inspect.getsource(AsyncLLM._run_output_handler)
    assert asyncio.iscoroutinefunction(AsyncLLM.add_request)


def test_prometheus_gets_the_sum_of_all_steps_at_intervals(tokenizer: Any) -> None:
    from vllm.v1.metrics.stats import FinishedRequestStats, IterationStats, SchedulerStats

    now = 10.0
    told: list[tuple[Any, Any]] = []
    logger = SimpleNamespace(record=lambda *stats, **_: told.append(stats), log="as it was")
    seldom = ThrottledStatLogger(logger, lambda: now)

    def step(running: int, **finished: Any) -> None:
        scheduler, iteration = SchedulerStats(num_running_reqs=running), IterationStats()
        scheduler.prefix_cache_stats.record(10, 4, preempted=False)
        iteration.num_generation_tokens = 3
        iteration.prompt_token_stats.total = 5
        if finished:
            iteration.finished_requests.append(FinishedRequestStats("stop", **finished))
        seldom.record(scheduler, iteration, mm_cache_stats=None, engine_idx=0)

    step(2)
    assert len(told) == 1  # the first
    step(2, num_prompt_tokens=7)
    step(2)
    assert len(told) == 1
    now += REPORT_INTERVAL_S
    step(1)
    step(1)
    step(0)  # there may be no further step for hours
    assert [scheduler.num_running_reqs for scheduler, _ in told] == [2, 1, 0]
    assert [scheduler.prefix_cache_stats.queries for scheduler, _ in told] == [10, 30, 20]
    assert [scheduler.prefix_cache_stats.hits for scheduler, _ in told] == [4, 12, 8]
    assert [iteration.num_generation_tokens for _, iteration in told] == [3, 9, 6]
    assert [iteration.prompt_token_stats.total for _, iteration in told] == [5, 15, 10]
    (finished,) = told[1][1].finished_requests
    assert finished.num_prompt_tokens == 7
    assert seldom.log == "as it was"
    seldom.record(None, IterationStats())
    assert len(told) == 3
