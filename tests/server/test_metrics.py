"""The metrics: each is documented, and what is documented is exported."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from gateway.core.session.quota import Account
from gateway.engines.registry import build
from gateway.engines.scripted import ScriptedRecogniser
from gateway.engines.vllm.compat import EngineStats
from gateway.engines.wrappers.route import EngineRoute
from gateway.io.tasks import failures
from gateway.limits import Limits
from gateway.protocol.messages import Cancelled, Failed, Final, Source, Timing
from gateway.server.access.authenticator import Authenticator
from gateway.server.app import create_app
from gateway.server.fleet.rooms import FleetRooms
from gateway.server.metrics import Metrics, garbage_collections
from gateway.server.runtime.fleet import Fleet
from gateway.server.runtime.gc_tuning import GarbageCollector
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.recognition import RecognitionRunner
from gateway.server.runtime.room_host import RoomHost
from gateway.settings.catalogue import OutputTable, Settings
from gateway.storage.sqlite.store import SqliteStore
from tests.support.hearing import Loudness

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "metrics.md"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*?) \| (\w+) \| (.+) \|$", re.MULTILINE)
UNITS = {"seconds", "bytes", "characters", "tokens", "share"}
"""Units that are the end of a name; anything else is a number of things, or 0 and 1."""


def exposed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the answer of a gateway with every part there is, to which everything has happened."""
    engine = build(Settings(engine="ctranslate2", fallback="scripted"))
    first = next(iter(engine.parts.values()))
    stats = {**first.stats(), **EngineStats().values}
    monkeypatch.setattr(EngineRoute, "stats", lambda _: stats)
    guards = Counter({("loop", "retried"): 1})
    app = create_app(
        engine,
        authenticator=Authenticator(Limits()),
        guards=guards,
        fleet=partial(FleetRooms, url="redis://localhost"),  # nothing connects before the start
    )
    metrics: Metrics = app.state.metrics
    hub: Hub = app.state.hub
    runner = hub.recognition = RecognitionRunner(hub.host, ScriptedRecogniser(), Loudness)
    runner.jobs["done"] = 1
    output = OutputTable(kind="zoom", url="http://localhost/", room="demo")
    app.state.outputs.add((output,))
    metrics.add(garbage_collections, GarbageCollector(lambda: False))
    app.state.authenticator.refused["busy"] = hub.load.refused["seat"] = 1
    failures["housekeeping"] += 0
    hub.host.tenants.accounts["acme"] = Account()
    times = Timing(queue=1, first=2, total=3)
    common: dict[str, Any] = {"seq": 1, "id": "u1", "rev": 1, "lang": "de"}
    metrics.observe(Source(**common, ord=1, text="morning"))
    metrics.observe(Final(**common, ord=1, text="Morgen", by="mt", ms=times, flags=("numbers",)))
    metrics.observe(Failed(**common, ord=1, code="rejected", retry=True))
    metrics.observe(Cancelled(**common, was="running"))
    return metrics.expose().decode() + kept_rooms(folder)


def kept_rooms(folder: Path) -> str:
    """Return the metrics of a gateway with a store, which excludes Redis."""
    metrics = Metrics()
    host = RoomHost(build(Settings(engine="scripted")), Limits())
    store = SqliteStore(folder / "rooms.db", Limits())
    metrics.add_hub(Hub(host, Fleet(host, store)), Counter())
    lines = metrics.expose().decode().splitlines(keepends=True)
    return "".join(line for line in lines if "gateway_store" in line)


def described(metric: Metric) -> tuple[str, str, set[str]]:
    """Return the name as it is exported, the type, and the labels of a metric."""
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    labels = {label for sample in metric.samples for label in sample.labels}
    return name, metric.type, labels - {"le"}


def test_every_metric_is_in_the_table_and_every_row_of_it_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = exposed(tmp_path, monkeypatch)
    families = list(text_string_to_metric_families(text))
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    rows = {row[0]: row for row in found}
    assert len(rows) == len(found), "no metric has two rows"
    assert rows.keys() == {described(metric)[0] for metric in families}
    for metric in families:
        name, kind, labels = described(metric)
        _, said, listed, unit, meaning = rows[name]
        assert (said, set(re.findall(r"`(\w+)`", listed))) == (kind, labels), name
        stem = metric.name.rpartition("_")[2]
        assert unit == (stem if stem in UNITS else unit), name
        assert unit in UNITS or not stem.endswith(("seconds", "bytes")), name
        if name.startswith("gateway_"):
            assert meaning == metric.documentation, name


def test_ends_and_refusals_are_exported_before_the_first_of_them() -> None:
    """A series that begins with its first event hides it from `rate`."""
    app = create_app(build(Settings(engine="scripted")), authenticator=Authenticator(Limits()))
    text = app.state.metrics.expose().decode()
    assert 'gateway_captions_total{by="mt",outcome="final"} 0.0' in text
    assert 'gateway_captions_total{by="timeout",outcome="failed"} 0.0' in text
    assert 'gateway_refused_total{why="queue"} 0.0' in text
    assert 'gateway_turned_away_total{code="unauthenticated"} 0.0' in text


def test_the_times_at_which_metrics_were_created_are_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = exposed(tmp_path, monkeypatch)
    assert 'gateway_captions_total{by="mt",outcome="final"} 1.0' in text
    assert "gateway_caption_first_seconds_count 1.0" in text
    assert "_created" not in text
