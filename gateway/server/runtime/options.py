"""Options of a hub.

Owns: how the hub treats text if a client says nothing else. Must not know: clients, engines.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.streaming.options import StreamingOptions
from gateway.server.runtime.language_detection import Detector


@dataclass(frozen=True)
class TextOptions:
    """Treatment of text by a hub.

    :param lang: language of speakers who name none; default: detected, or English without detector
    :param detect: detector of the language of a text; None: languages have to be named
    :param flow: how growing text is translated; default: that of the core
    :param coalesce_s: seconds that text may wait for more of itself under load; 0: it never waits
    """

    lang: str | None = None
    detect: Detector | None = None
    flow: StreamingOptions | None = None
    coalesce_s: float = 0.05
