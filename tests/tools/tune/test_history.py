"""The load that scrapes of ``/metrics`` show."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from caption_tools.tune import history
from caption_tools.tune.history import recorded
from gateway.protocol.messages import Final, Source, Timing
from gateway.server.metrics import Metrics


def exposition(
    at: float,
    said: float,
    *,
    lengths: Sequence[tuple[str, float]] = (),
    partial: float = 0.0,
    jobs: tuple[float, float] = (0.0, 0.0),
) -> str:
    """Return a scrape in which each utterance has two captions."""
    buckets = lengths or (("10.0", said / 2), ("100.0", said), ("+Inf", said))
    lines = [
        f"# at {at}",
        "# HELP gateway_utterances_total Utterances said to their end.",
        "# TYPE gateway_utterances_total counter",
        f"gateway_utterances_total {said}",
        *(f'gateway_utterance_characters_bucket{{le="{le}"}} {n}' for le, n in buckets),
        f'gateway_captions_total{{by="mt",outcome="final"}} {2 * said}',
        'gateway_captions_total{by="rejected",outcome="failed"} 7.0',
        f'gateway_jobs_total{{priority="partial"}} {partial}',
        f'gateway_jobs_total{{priority="final"}} {2 * said}',
        f"gateway_jobs_running {jobs[0]}",
        f"gateway_jobs_queued {jobs[1]} 1732250000000",
        "python_gc_objects_collected_total 5.0",
    ]
    return "\n".join(lines) + "\n"


def test_a_history_tells_rates_lengths_languages_and_partials() -> None:
    found = recorded(
        exposition(100, 0)
        + exposition(110, 20, partial=60, jobs=(4, 0))
        + exposition(120, 40, partial=120, jobs=(16, 8))
    )
    assert (found.seconds, found.rate, found.mean) == (20, 2.0, 2.0)
    assert found.lengths == ((0.0, 10.0, 20.0), (10.0, 100.0, 20.0))
    assert found.languages == 2.0
    assert found.partials == 1.5


def test_the_rate_is_that_of_the_busy_times_and_not_of_the_night() -> None:
    day = [exposition(100 * n, 10 * min(n, 90)) for n in range(90)]
    night = [exposition(9000 + 100 * n, 900) for n in range(100)]
    found = recorded("".join(day + night))
    assert found.rate == pytest.approx(0.1)
    assert found.mean == pytest.approx(0.047, abs=0.002)


def test_a_rate_is_never_that_of_silence() -> None:
    silent = "".join(exposition(n, 0) for n in range(0, 1000, 10))
    assert recorded(silent + exposition(1030, 4)).rate == pytest.approx(4 / 40)


def test_the_rate_is_not_that_of_a_single_busy_second() -> None:
    said = [0, 0, 0, 2, 2, 3, 3, 3, 3, 5]  # half of one a second on average
    text = "".join(exposition(n, 5 * (n // 10) + said[n % 10]) for n in range(301))
    assert recorded(text).rate == pytest.approx(0.5, abs=0.1)


def marked(at: float, said: dict[str, float]) -> str:
    """Return a scrape of several processes."""
    lines = [f"# at {at}"]
    for name, count in said.items():
        for line in exposition(at, count).splitlines()[3:9]:
            metric, _, value = line.rpartition(" ")
            bare, _, labels = metric.rstrip("}").partition("{")
            lines.append(f'{bare}{{instance="{name}"{"," if labels else ""}{labels}}} {value}')
    return "\n".join(lines) + "\n"


def test_the_restart_of_one_of_several_processes_is_noticed() -> None:
    text = marked(100, {"0": 1000, "1": 1000}) + marked(110, {"0": 1010, "1": 4})
    found = recorded(text)
    assert found.mean == pytest.approx(14 / 10)
    assert found.languages == 2.0
    assert sum(count for *_, count in found.lengths) == pytest.approx(14)


def test_a_process_that_is_missing_once_was_not_restarted() -> None:
    text = marked(100, {"0": 1000, "1": 1000}) + marked(110, {"0": 1010})
    assert recorded(text + marked(120, {"0": 1020, "1": 1004})).mean == pytest.approx(1.2)


def test_counts_from_before_the_first_scrape_of_a_process_do_not_count() -> None:
    text = marked(100, {"0": 0}) + marked(110, {"0": 10, "1": 5000})
    assert recorded(text + marked(120, {"0": 20, "1": 5010})).mean == pytest.approx(1.5)


def test_scrapes_are_sorted_by_their_times() -> None:
    text = exposition(120, 40) + exposition(100, 0)
    assert recorded(text).mean == 2.0
    assert recorded(exposition(100, 0) * 2 + exposition(120, 40)).mean == 2.0


def test_a_counter_that_falls_was_restarted() -> None:
    text = exposition(100, 1000) + exposition(110, 1020) + exposition(120, 4)
    found = recorded(text)
    assert found.mean == pytest.approx(24 / 20)
    assert sum(count for *_, count in found.lengths) == pytest.approx(24)


def test_a_counter_that_is_not_there_any_more_has_not_grown() -> None:
    text = exposition(100, 0) + exposition(110, 20) + "# at 120\ngateway_jobs_running 1\n"
    assert recorded(text).mean == 1.0


def test_a_history_without_captions_has_no_partials() -> None:
    text = exposition(100, 0) + exposition(110, 20, partial=5)
    text = "\n".join(line for line in text.splitlines() if "captions" not in line)
    found = recorded(text)
    assert (found.languages, found.partials) == (0.0, 0.0)


def test_lengths_beyond_the_last_bucket_are_twice_that_at_most() -> None:
    lengths = [("10.0", 5.0), ("2000.0", 5.0), ("+Inf", 9.0)]
    text = exposition(0, 0, lengths=[(le, 0.0) for le, _ in lengths])
    found = recorded(text + exposition(10, 9, lengths=lengths))
    assert found.lengths == ((0.0, 10.0, 5.0), (2000.0, 4000.0, 4.0))


def test_an_answer_of_prometheus_to_query_range_is_a_history() -> None:
    def row(name: str, one: float, two: float, **labels: str) -> dict[str, object]:
        return {
            "metric": {"__name__": name, "job": "gateway", **labels},
            "values": [[100, str(one)], [120.5, str(two)]],
        }

    rows = [
        row("gateway_utterances_total", 0, 20, instance="a"),
        row("gateway_utterances_total", 5, 25, instance="b"),
        row("gateway_utterance_characters_bucket", 0, 20, le="45.0"),
        row("gateway_utterance_characters_bucket", 0, 40, le="+Inf"),
        row("gateway_captions_total", 0, 40, by="mt", outcome="final"),
        row("up", 1, 1),
    ]
    text = msgspec.json.encode({"status": "success", "data": {"result": rows}}).decode()
    found = recorded(text)
    assert found.mean == pytest.approx(40 / 20.5)
    assert found.lengths == ((0.0, 45.0, 20.0), (45.0, 90.0, 20.0))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "two scrapes"),
        (exposition(100, 0), "two scrapes"),
        (exposition(100, 0) + exposition(100, 5), "two scrapes"),
        (exposition(100, 5) + exposition(110, 5), "Nothing was said"),
        ("gateway_utterances_total 5.0\n", "has no times"),
        ('{"data": 5}', "no answer of Prometheus"),
        ('{"data":{"result":[{"metric":{"__name__":"gateway_jobs_total"},"values":[[1,"x"]]}]}}',
         "has 'x' where a number"),
        ("# at 1.2.3\ngateway_utterances_total 1\n", "has no times"),
        (exposition(1, 0) + exposition(2, 5).replace("{le=", "{el="), "has '' where a number"),
        (exposition(1, 0) + exposition(2, math.nan), "Nothing was said"),
        ("# at 1\ngateway_utterances_total 1\n# at 2\ngateway_utterances_total 5\n",
         "does not say how long"),
    ],
)  # fmt: skip
def test_an_unusable_history_is_refused_with_a_sentence(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        recorded(text)


def test_the_metrics_of_this_gateway_can_be_read() -> None:
    metrics = Metrics()

    def scrape(at: int) -> str:
        return f"# at {at}\n" + metrics.expose().decode()

    before = scrape(100)
    for n in range(12):
        metrics.observe(Source(seq=n, id=str(n), rev=1, ord=n, lang="en", text="x" * 12 * n))
        ms = Timing(queue=1, first=2, total=3)
        metrics.observe(Final(seq=n, id=str(n), rev=1, ord=n, lang="de", text="y", by="mt", ms=ms))
    found = recorded(before + scrape(110))
    assert found.mean == 1.2
    assert found.languages == 1.0
    assert sum(count for *_, count in found.lengths) == 12
    names = {
        sample.name
        for family in text_string_to_metric_families(metrics.expose().decode())
        for sample in family.samples
    }
    assert {history.UTTERANCES, history.LENGTHS, history.CAPTIONS} <= names
