"""A real Prometheus for tests, which scrapes gateways and evaluates expressions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2 as httpx

from benchmarks.ports import free_port
from tests.support.reverse_proxy import program

SCRAPES = 4
"""Scrapes of each target after which rates are known."""


class Prometheus:
    """A running server."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression that have a value now."""
        answer = await self._client.get("/api/v1/query", params={"query": expression})
        body = answer.json()
        assert body["status"] == "success", body
        series: list[dict[str, Any]] = body["data"]["result"]
        return [one for one in series if one["value"][1] != "NaN"]

    async def rules(self) -> list[dict[str, Any]]:
        """Return the loaded rules, each with its state."""
        body = (await self._client.get("/api/v1/rules")).json()
        return [rule for group in body["data"]["groups"] for rule in group["rules"]]

    async def scraped(self, targets: int) -> None:
        """Wait until every target was scraped, from now on, often enough for rates."""
        first: dict[str, int] = {}
        done: set[str] = set()
        while len(done) < targets:
            # Until it has started it refuses connections, and then answers 503.
            with contextlib.suppress(httpx.TransportError, httpx.HTTPStatusError):
                (await self._client.get("/-/ready")).raise_for_status()
                for one in await self.query("count_over_time(up[1h]) and up == 1"):
                    name, count = one["metric"]["instance"], int(one["value"][1])
                    if count >= first.setdefault(name, count) + SCRAPES:
                        done.add(name)
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def prometheus(
    folder: Path, targets: Sequence[str], *, rule_files: Sequence[Path] = (), key: str | None = None
) -> AsyncIterator[Prometheus]:
    """Run a Prometheus until the block ends.

    :param targets: addresses ``HOST:PORT``, scraped five times a second as the job ``gateway``
    :param key: an API key for the scrapes
    """
    port = free_port()
    job: dict[str, Any] = {"job_name": "gateway", "static_configs": [{"targets": [*targets]}]}
    if key is not None:
        job["authorization"] = {"credentials": key}
    config = {
        "global": {"scrape_interval": "200ms", "evaluation_interval": "200ms"},
        "rule_files": [str(path) for path in rule_files],
        "scrape_configs": [job],
    }
    file = folder / "prometheus.yml"
    file.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    command = (
        program("prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: ASYNC220
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            server = Prometheus(client)
            await server.scraped(len(targets))
            yield server
    finally:
        process.kill()
        process.wait()
