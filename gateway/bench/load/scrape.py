"""The gateway's own figures while it is under load.

Owns: fetching ``/metrics``. Must not know: what the numbers are for.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from urllib.parse import urlsplit

from gateway.bench.load import exposition
from gateway.dial import address

ANSWER_S = 5.0
"""Seconds for one answer."""
MOST = 8_388_608
"""Bytes of one."""


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
        """One scrape, timed from ``zero`` (of `time.monotonic`); whether it told anything."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_S):
                status, text = await self._get()
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError) as exc:
            self.why = f"/metrics could not be read: {exc or type(exc).__name__}."
            return False
        if status != 200:
            self.why = f"/metrics answered {status}" + (
                ": where keys are configured, it takes one that may moderate."
                if status in (401, 403)
                else "."
            )
            return False
        found = exposition.parse(text)
        if found is not None and len(self.samples) < self.CAP:
            self.samples.append((round(max(0.0, begun - zero), 3), found))
        return True

    async def watch(self, zero: float, every: float) -> None:
        """Look every so many seconds, until it is cancelled or nobody answers."""
        while await self.look(zero):  # noqa: ASYNC110  # no event tells of another process
            await asyncio.sleep(every)

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
