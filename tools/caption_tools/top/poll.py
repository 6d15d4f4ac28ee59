"""The answers of one gateway, fetched again and again.

Owns: requests, and sentences for what goes wrong. Must not know: figures, the terminal.
"""

from __future__ import annotations

import json
import socket
import time
from urllib.parse import urlsplit

import httpx2

from caption_tools.scrape import ANSWER_S, Scraper, series
from caption_tools.top.model.figures import GatewayFigures, GatewayReading, figures

WINDOW_S = 60.0  # seconds over which rates and percentiles are computed


class Poller:
    """One gateway, and its answers of the last minute.

    Raises `ValueError` if the URL is not an address.
    """

    def __init__(self, url: str, key: str | None) -> None:
        self._scraper = Scraper(url, key)
        self._answers: list[GatewayReading] = []
        parts = urlsplit(url if "://" in url else f"ws://{url}")
        path = parts.path.rstrip("/")
        self.name = parts.netloc.rpartition("@")[2] + path

    async def poll(self) -> None:
        """Ask the gateway once. A gateway that is down is an answer as well."""
        answer = await self._ask()
        oldest = answer.at - WINDOW_S
        self._answers = [
            earlier for earlier in self._answers if earlier.at >= oldest and earlier.series
        ]
        self._answers.append(answer)

    def figures(self, *, latencies_of_all: bool) -> GatewayFigures:
        """Return the row of the gateway, over the last minute or since the first answer."""
        if not self._answers:
            return GatewayFigures(name=self.name, status="...")
        now = self._answers[-1]
        before = self._answers[0] if len(self._answers) > 1 else None
        return figures(self.name, now, before, latencies_of_all=latencies_of_all)

    async def _ask(self) -> GatewayReading:
        try:
            _, text = await self._scraper.get("/readyz")
            status = json.loads(text)
            state = {
                "status": str(status["status"]),
                "engine": str(status["engine"]),
                "fallback": status["fallback"],
                "partials": str(status["partials"]),
            }
        except OSError as exc:
            return GatewayReading(at=time.monotonic(), why=_reason(exc))
        except (ValueError, TypeError, KeyError):
            why = "Something answers there, but it is no gateway."
            return GatewayReading(at=time.monotonic(), status="?", why=why)
        try:
            values = series(await self._scraper.fetch())
        except (OSError, ValueError) as exc:
            return GatewayReading(at=time.monotonic(), why=str(exc), **state)
        return GatewayReading(at=time.monotonic(), series=values, **state)


def _reason(fault: OSError) -> str:
    """Return a sentence for a connection that failed."""
    cause: BaseException | None = fault
    while cause is not None:
        match cause:
            case ConnectionRefusedError():
                return "No gateway listens there."
            case TimeoutError():
                return f"No answer within {ANSWER_S:g} s."
            case socket.gaierror():
                return "The name of the machine is not known."
            case httpx2.ReadError():
                return "The connection was closed before the answer."
            case _:
                # The HTTP client has the operating system's error several levels below its own.
                cause = cause.__cause__ or cause.__context__
    return str(fault)
