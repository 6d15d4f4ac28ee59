"""Each panel shows something: a real Prometheus evaluates its expressions on gateways' metrics."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from benchmarks.ports import free_port
from benchmarks.soak.child import Child
from gateway.auth.permissions import Role
from gateway.client import connect
from tests.deploy.expressions import RULES, dashboards, filled, panel_targets, rules
from tests.server.access.credentials import key
from tests.server.test_metrics import exposed
from tests.support.live import until
from tests.support.prometheus import prometheus
from tests.support.redis import RedisServer

WITHOUT_DATA = {
    **dict.fromkeys(("Batch", "KV cache and prefix cache", "Time inside vLLM", "Steps"), "no vLLM"),
    "Final text after the end of speech": "nobody spoke aloud",
    "Doubtful captions": "no caption had a flag",
    "Guards": "the scripted engine has none",
    "Outputs": "none is configured",
    "Store": "a store cannot be combined with Redis",
}
"""Titles of panels that are empty for two gateways with Redis and a scripted engine, and why."""


STATES = ("gateway_engine_health",)
"""Gauges that are 1 for the state that holds, and 0 for the others."""


def panels() -> Iterator[tuple[str, str]]:
    """Yield title and expression of everything that a dashboard shows, for any gateway."""
    for dashboard in dashboards():
        for panel in dashboard["panels"]:
            for target in panel_targets(panel):
                yield panel["title"], filled(target["expr"].replace("$instance", ".*"))


class GrowingMetrics:
    """The metrics of a gateway to which everything happens once more at each scrape."""

    def __init__(self, text: str) -> None:
        self._families = [*text_string_to_metric_families(text)]
        self._scrapes = 0

    async def answer(self, request: Request) -> PlainTextResponse:
        """Answer a scrape."""
        self._scrapes += 1
        lines = []
        for family in self._families:
            kind = family.type if family.type != "counter" else "untyped"
            lines.append(f"# TYPE {family.name} {kind}")
            for sample in family.samples:
                labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
                value = (sample.value or 1) * self._scrapes
                if sample.name in STATES:
                    value = sample.value
                lines.append(f"{sample.name}{{{labels}}} {value}")
        return PlainTextResponse("\n".join(lines) + "\n")


@contextlib.asynccontextmanager
async def serving(metrics: GrowingMetrics) -> AsyncIterator[str]:
    """Serve metrics, and yield the address."""
    port = free_port()
    app = Starlette(routes=[Route("/metrics", metrics.answer)])
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None))
    task = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started)
        yield f"127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


async def test_every_expression_of_a_panel_returns_data_if_everything_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = GrowingMetrics(exposed(tmp_path, monkeypatch))
    async with (
        serving(metrics) as target,
        prometheus(tmp_path, [target], rule_files=[RULES]) as server,
    ):
        empty = {text: title for title, text in panels() if not await server.query(text)}
        assert empty == {}
        states = {rule["name"]: rule["health"] for rule in await server.rules()}
        while "unknown" in states.values():  # it was not evaluated yet
            states = {rule["name"]: rule["health"] for rule in await server.rules()}
        assert states == {rule["alert"]: "ok" for rule in rules()}


async def test_every_panel_shows_data_of_two_running_gateways(tmp_path: Path) -> None:
    token, line = key(1, role=Role.MODERATE, tenant="会社")
    keys = tmp_path / "keys.toml"
    keys.write_text(line, encoding="utf-8")
    flags = ("--engine", "scripted", "--recogniser", "scripted", "--keys", str(keys))
    async with contextlib.AsyncExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path))
        gateways = [Child((*flags, "--redis", redis.url), tmp_path / f"log{n}") for n in "ab"]
        for gateway in gateways:
            stack.push_async_callback(gateway.kill)
        await asyncio.gather(*(gateway.start() for gateway in gateways))
        targets = [f"127.0.0.1:{gateway.port}" for gateway in gateways]
        server = await stack.enter_async_context(prometheus(tmp_path, targets, key=token))
        clients = [
            await stack.enter_async_context(
                connect(f"http://{target}", key=token, room="r", to=("de",))
            )
            for target in targets
        ]
        for number in range(5):
            await clients[0].say(f"sentence {number}", id=f"u{number}")
        ended = 0
        while ended < 5:
            event = await anext(aiter(clients[1]))
            ended += type(event).__name__ == "Final"
        await server.scraped(len(targets))
        shown = {title for title, text in panels() if await server.query(text)}
        assert {title for title, _ in panels()} - shown == WITHOUT_DATA.keys()
