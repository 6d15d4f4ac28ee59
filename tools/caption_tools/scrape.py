"""The gateway's own metrics while it is under load.

Owns: fetching ``/metrics`` and other pages, and parsing the values. Must not know: what the values
are used for.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from urllib.parse import urlsplit

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from gateway.client.transport import address
from gateway.protocol.handshake import SOCKET_PATH
from gateway.settings.catalogue import KEY

ANSWER_S = 5.0  # seconds to wait for an answer
MOST = 8_388_608  # largest answer in bytes
LARGEST = ("_usage", "_largest_bytes", "_longest_seconds", "_coalesce_seconds")
"""Name endings of metrics that are combined over labels by their maximum, not by their sum."""


def series(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the values by name, each with its labels. Raises `ValueError` for another format."""
    values: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values.setdefault(sample.name, []).append((sample.labels, sample.value))
    return values


def parse(text: str) -> dict[str, float]:
    """Return the values by name, summed over labels, without histogram buckets.

    Raises `ValueError` if the text is not in the Prometheus format.
    """
    return {
        name: (max if name.endswith(LARGEST) else sum)(value for _, value in values)
        for name, values in series(text).items()
        # Buckets are cumulative; their sum over ``le`` means nothing.
        if not name.endswith("_bucket")
    }


class Scraper:
    """A scraper of one gateway. ``samples`` are (second, values), oldest first, at most `CAP`."""

    CAP = 3_600

    def __init__(self, url: str, key: str | None) -> None:
        self.samples: list[tuple[float, dict[str, float]]] = []
        self.why: str | None = None  # reason why there are no samples
        # A proxy may serve the gateway below a path of its own.
        socket = urlsplit(address(url, {}))
        path = socket.path.removesuffix(SOCKET_PATH).rstrip("/")
        scheme = socket.scheme.replace("ws", "http")
        self._tls = ssl.create_default_context() if scheme == "https" else False
        self._url = socket._replace(scheme=scheme, path=path, query="").geturl()
        self._key = key

    async def scrape_once(self, zero: float) -> bool:
        """Scrape once, timed from ``zero`` (of `time.monotonic`); return whether it succeeded."""
        begun = time.monotonic()
        try:
            values = parse(await self.fetch())
        except ValueError as exc:
            self.why = f"/metrics could not be read: {exc}."
            return False
        except OSError as exc:
            self.why = str(exc)
            return False
        # A run of days must not grow without a bound.
        if len(self.samples) < self.CAP:
            self.samples.append((round(max(0.0, begun - zero), 3), values))
        return True

    async def watch(self, zero: float, every: float) -> None:
        """Scrape every ``every`` seconds until cancelled or until a scrape fails."""
        while await self.scrape_once(zero):  # noqa: ASYNC110  # no event tells of another process
            await asyncio.sleep(every)

    async def fetch(self) -> str:
        """Return the text of ``/metrics``. Raises `OSError` with a sentence."""
        status, text = await self.get("/metrics")
        if status in (401, 403):
            raise OSError(
                f"/metrics needs an API key that may moderate ({status}). Set the variable {KEY}."
            )
        if status != 200:
            raise OSError(f"/metrics answered {status}.")
        return text

    async def get(self, path: str) -> tuple[int, str]:
        """Return the status and the text of an answer. Raises `OSError` with a sentence."""
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        body = b""
        try:
            async with (
                asyncio.timeout(ANSWER_S),
                httpx2.AsyncClient(verify=self._tls, trust_env=False) as client,
                client.stream("GET", self._url + path, headers=headers) as answer,
            ):
                async for more in answer.aiter_bytes():
                    body += more
                    if len(body) > MOST:
                        raise ValueError("it has no end")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as exc:
            raise OSError(f"{path} could not be read: {exc or type(exc).__name__}.") from exc
        return answer.status_code, body.decode(errors="replace")
