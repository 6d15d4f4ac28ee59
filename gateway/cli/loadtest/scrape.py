"""The gateway's own figures while it is under load.

Owns: fetching ``/metrics``, and its numbers by name. Must not know: what the numbers are for.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from gateway.client.transport import address
from gateway.server.cluster.metrics import UP
from gateway.settings.catalogue import KEY

ANSWER_S = 5.0
"""Seconds for one answer."""
MOST = 8_388_608
"""Bytes of one."""


LARGEST = ("_usage", "_largest_bytes", "_longest_seconds", "_coalesce_seconds")
"""Ends of names of which several workers have a largest and no sum."""


def parse(text: str) -> dict[str, float] | None:
    """Return the numbers by name, summed over labels, without the buckets of histograms.

    Return None where a worker gave no answer: its counters would be seen to fall, and then to leap.
    Raises `ValueError` for a text that is not in the Prometheus format.
    """
    found: dict[str, float] = {}
    samples = (one for family in text_string_to_metric_families(text) for one in family.samples)
    for name, _, value, *_ in samples:
        if name == UP and not value:
            return None
        if name.endswith("_bucket"):
            continue
        before = found.get(name, 0.0)
        found[name] = max(before, value) if name.endswith(LARGEST) else before + value
    return found


class Scraper:
    """Of one gateway. ``samples`` are (second, numbers), oldest first, `CAP` at most."""

    CAP = 3_600

    def __init__(self, url: str, key: str | None) -> None:
        self.samples: list[tuple[float, dict[str, float]]] = []
        self.why: str | None = None
        """Why there are none."""
        self._url = urlsplit(address(url, {}))
        self._key = key

    async def look(self, zero: float) -> bool:
        """Scrape once, timed from ``zero`` (of `time.monotonic`); return whether it succeeded."""
        begun = time.monotonic()
        try:
            found = parse(await self.fetch())
        except ValueError as exc:
            self.why = f"/metrics could not be read: {exc}."
            return False
        except OSError as exc:
            self.why = str(exc)
            return False
        if found is not None and len(self.samples) < self.CAP:
            self.samples.append((round(max(0.0, begun - zero), 3), found))
        return True

    async def watch(self, zero: float, every: float) -> None:
        """Look every so many seconds, until it is cancelled or nobody answers."""
        while await self.look(zero):  # noqa: ASYNC110  # no event tells of another process
            await asyncio.sleep(every)

    async def fetch(self) -> str:
        """Return the text of ``/metrics``. Raises `OSError` with a sentence."""
        try:
            async with asyncio.timeout(ANSWER_S):
                status, text = await self._get()
        except (OSError, ValueError, asyncio.IncompleteReadError) as exc:
            raise OSError(f"/metrics could not be read: {exc or type(exc).__name__}.") from exc
        if status in (401, 403):
            raise OSError(
                f"/metrics answered {status}: where keys are configured, it takes one that may"
                f" moderate, from {KEY}."
            )
        if status != 200:
            raise OSError(f"/metrics answered {status}.")
        return text

    async def _get(self) -> tuple[int, str]:
        url = self._url
        tls = ssl.create_default_context() if url.scheme == "wss" else None
        reader, writer = await asyncio.open_connection(
            url.hostname, url.port or (443 if tls else 80), ssl=tls, limit=MOST
        )
        try:
            bearer = "" if self._key is None else f"Authorization: Bearer {self._key}\r\n"
            writer.write(
                f"GET /metrics HTTP/1.0\r\nHost: {url.netloc.rpartition('@')[2]}\r\n{bearer}"
                "Connection: close\r\n\r\n".encode()
            )
            first = await reader.readline()
            while (await reader.readline()).strip():
                pass
            body = await reader.read(MOST)
            while more := await reader.read(MOST):
                body += more
                if len(body) > MOST:
                    raise ValueError("it has no end")
            return int(first.split()[1]), body.decode(errors="replace")
        except IndexError:
            raise ValueError("that is no HTTP") from None
        finally:
            writer.close()
