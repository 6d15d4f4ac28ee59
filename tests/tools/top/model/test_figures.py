"""The figures of `gateway top`, from the answers of a gateway."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caption_tools.top.model.figures import GatewayFigures, GatewayReading, figures, quantile

INF = float("inf")


def answer(at: float, *, why: str | None = None, **fields: Any) -> GatewayReading:
    """Return an answer of a ready gateway. ``series`` maps a name to one value or to many."""
    series = {
        name: found if isinstance(found, list) else [({}, float(found))]
        for name, found in fields.pop("series", {"gateway_sessions": 1}).items()
    }
    known = {"status": "ready", "engine": "scripted"} | fields
    return GatewayReading(at=at, series={} if why else series, why=why, **known)


def row(
    now: GatewayReading, before: GatewayReading | None = None, *, latencies_of_all: bool = True
) -> GatewayFigures:
    return figures("a:8000", now, before, latencies_of_all=latencies_of_all)


def notes(before: dict[str, Any], now: dict[str, Any], **fields: Any) -> tuple[str, ...]:
    return row(answer(5, series=now, **fields), answer(0, series=before)).notes


def first(*counts: float) -> list[tuple[dict[str, str], float]]:
    """Return the buckets up to 1 s, 2 s and any time."""
    return [({"le": le}, count) for le, count in zip(("1", "2", "+Inf"), counts, strict=True)]


def test_gauges_are_summed_over_labels() -> None:
    two = [({"engine": "0"}, 3.0), ({"engine": "1"}, 4.0)]
    found = row(answer(1, series={"gateway_sessions": two, "gateway_rooms": 2}))
    assert (found.sockets, found.rooms, found.queued) == (7, 2, None)
    assert (found.status, found.engine, found.notes) == ("ready", "scripted", ())


def test_rates_are_those_between_two_answers() -> None:
    before = {"gateway_tokens_total": 100, "gateway_utterances_total": 10}
    now = {"gateway_tokens_total": 350, "gateway_utterances_total": 20}
    found = row(answer(30, series=now), answer(5, series=before))
    assert (found.tokens, found.utterances) == (10, 24)


def test_one_answer_has_no_rates() -> None:
    found = row(answer(1, series={"gateway_tokens_total": 100}))
    assert (found.tokens, found.utterances, found.cpu, found.failed) == (None,) * 4


def test_two_answers_of_the_same_time_have_no_rates() -> None:
    one = answer(1, series={"gateway_tokens_total": 100})
    assert row(one, one).tokens is None


def test_a_counter_that_fell_began_again_with_a_new_process() -> None:
    before, now = {"gateway_tokens_total": 1000}, {"gateway_tokens_total": 50}
    assert row(answer(10, series=now), answer(0, series=before)).tokens == 5


def test_the_share_of_failures_is_that_of_the_window() -> None:
    def captions(final: float, failed: float) -> dict[str, Any]:
        return {
            "gateway_captions_total": [
                ({"outcome": "final", "by": "mt"}, final),
                ({"outcome": "failed", "by": "timeout"}, failed),
            ]
        }

    found = row(answer(9, series=captions(109, 6)), answer(0, series=captions(100, 5)))
    assert found.failed == pytest.approx(0.1)
    assert found.notes == ("Captions failed: timeout 1.",)


def test_percentiles_are_of_the_window_or_of_all_captions() -> None:
    now = answer(9, series={"gateway_caption_first_seconds_bucket": first(90, 100, 100)})
    before = answer(0, series={"gateway_caption_first_seconds_bucket": first(90, 90, 90)})
    assert row(now, before).first50 == pytest.approx(0.5 / 0.9)
    assert row(now, before, latencies_of_all=False).first50 == pytest.approx(1.5)


def test_percentiles_of_a_window_need_an_earlier_answer() -> None:
    now = answer(9, series={"gateway_caption_first_seconds_bucket": first(90, 100, 100)})
    assert row(now, latencies_of_all=False).first50 is None


def test_percentiles_after_a_restart_are_those_of_the_new_process() -> None:
    now = answer(9, series={"gateway_caption_first_seconds_bucket": first(0, 4, 4)})
    before = answer(0, series={"gateway_caption_first_seconds_bucket": first(90, 90, 90)})
    assert row(now, before, latencies_of_all=False).first50 == pytest.approx(1.5)


def test_percentiles_are_of_the_captions_of_all_labels_together() -> None:
    buckets = [
        ({"engine": w, "le": le}, n)
        for w, counts in (("0", (9, 9)), ("1", (0, 1)))
        for le, n in zip(("1", "+Inf"), counts, strict=True)
    ]
    found = row(answer(1, series={"gateway_caption_total_seconds_bucket": buckets}))
    assert found.total95 == 1.0


def test_a_gateway_that_is_down_has_the_reason_as_its_note() -> None:
    found = row(GatewayReading(at=1, why="No gateway listens there."), answer(0))
    assert (found.status, found.engine, found.sockets) == ("down", "", None)
    assert found.notes == ("No gateway listens there.",)
    assert row(GatewayReading(at=1)).notes == ()


def test_without_metrics_the_state_and_the_engine_are_known() -> None:
    found = row(answer(1, why="/metrics needs a key.", status="starting"))
    assert (found.status, found.engine) == ("starting", "scripted")
    assert found.notes == ("/metrics needs a key.",)


def test_a_fallback_stands_beside_the_engine_that_it_replaces() -> None:
    found = row(answer(1, engine="vllm", fallback="ctranslate2"))
    assert found.engine == "ctranslate2 for vllm"
    assert found.notes == ("vllm is away; ctranslate2 translates.",)


@pytest.mark.parametrize(
    ("before", "now", "note"),
    [
        (
            {"gateway_refused_total": [({"why": "seat"}, 1.0)]},
            {
                "gateway_refused_total": [
                    ({"why": "seat"}, 3.0),
                    ({"why": "queue"}, 1200.0),
                    ({"why": "x"}, 1.0),
                ]
            },
            "Utterances refused as busy: queue full 1,200, too many rooms 2, x 1.",
        ),
        (
            {"gateway_too_slow_total": 1},
            {"gateway_too_slow_total": 4},
            "Readers closed as too slow: 3.",
        ),
        (
            {"gateway_sessions": 1},
            {
                "gateway_engine_kv_cache_usage": [
                    ({"engine": "one"}, 0.2),
                    ({"engine": "two"}, 0.99),
                ]
            },
            "vLLM's KV cache is full: work is thrown away and repeated.",
        ),
        (
            {"gateway_fleet_connected": 1},
            {"gateway_fleet_connected": 0},
            "Redis does not answer: shared rooms show nothing new until it does.",
        ),
        (
            {"gateway_store_lost_total": 0},
            {"gateway_store_lost_total": 7},
            "Events that could not be written to the store: 7.",
        ),
        (
            {"gateway_store_behind": 0},
            {"gateway_store_behind": 2000},
            "Events that the store has not written yet: 2,000.",
        ),
    ],
)
def test_what_is_not_well_is_a_sentence(
    before: dict[str, Any], now: dict[str, Any], note: str
) -> None:
    assert notes(before, now) == (note,)


def test_caches_of_several_engines_are_not_added_up() -> None:
    used = [({"engine": "one"}, 0.6), ({"engine": "two"}, 0.6)]
    assert notes({"gateway_sessions": 1}, {"gateway_engine_kv_cache_usage": used}) == ()


def test_an_overload_is_a_sentence() -> None:
    found = row(answer(1, partials="off"))
    assert found.notes == ("Overloaded: partial texts are not translated.",)


def test_counters_that_stand_still_are_no_news() -> None:
    same = {"gateway_too_slow_total": 4, "gateway_refused_total": [({"why": "seat"}, 1.0)]}
    assert notes(same, same) == ()


def test_a_quantile_beyond_the_last_bound_is_that_bound() -> None:
    assert quantile({1: 5, INF: 10}, 0.95) == 1
    assert quantile({}, 0.5) is None
    assert quantile({1: 0, INF: 0}, 0.5) is None


@given(st.lists(st.integers(0, 50), min_size=2, max_size=8), st.floats(0.01, 0.99))
def test_a_quantile_lies_in_the_bucket_that_holds_its_rank(counts: list[int], q: float) -> None:
    bounds = [*range(1, len(counts)), INF]
    cumulative = {bound: float(sum(counts[: n + 1])) for n, bound in enumerate(bounds)}
    found = quantile(cumulative, q)
    if not sum(counts):
        assert found is None
        return
    assert found is not None
    rank = q * sum(counts)
    holder = next(bound for bound in bounds if cumulative[bound] >= rank)
    assert found <= min(holder, bounds[-2])
    assert found >= min(holder - 1 if holder != INF else bounds[-2], bounds[-2]) - 1e-9
