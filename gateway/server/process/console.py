"""Text that a gateway writes to its terminal: progress, and how it is reached.

Owns: these texts. Must not know: how the gateway starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable

from gateway.core.base.validation import usual
from gateway.engines.base.engine import Engine
from gateway.protocol.handshake import SOCKET_PATH
from gateway.server.process import lan
from gateway.server.process.logs import as_line
from gateway.settings.catalogue import Settings, asks


def say(text: str) -> None:
    """Write text to standard error, if it can be written, in the format of the log."""
    # A gateway must not end because the disk that its output goes to is full.
    with contextlib.suppress(OSError):
        sys.stderr.write(as_line(text))
        sys.stderr.flush()


async def show_progress(engine: Engine, clock: Callable[[], float]) -> None:
    """Show until cancelled how long the engine has been loading.

    On a terminal one line is updated each second; elsewhere a line is written every 30 s.
    """
    begun = clock()
    terminal = sys.stderr.isatty() and as_line("") == ""
    try:
        while True:
            line = f"Starting {engine.name} ... {clock() - begun:.0f} s"
            say("\r" + line if terminal else line + "\n")
            await asyncio.sleep(1 if terminal else 30)
    finally:
        if terminal:
            say("\r\x1b[K")


def announcement(
    engine: Engine, address: str, settings: Settings, invitation: lan.Invitation | None
) -> str:
    """Return the text that says that the gateway is ready and how it is reached at its address."""
    substitute = engine.substitute
    ready = f"{engine.name} is ready."
    if substitute is not None:
        ready = f"{substitute} is ready and translates until {engine.name} is ready."
    if invitation is not None:
        how = lan.notice(invitation, settings, sys.stderr)
    else:
        profile = engine.profile
        source = usual(profile)
        targets = [t for t in profile.targets if profile.supports(source, t) and t != source]
        query = f"from={source}&to={','.join(targets[:2])}"
        key = "-H 'Authorization: Bearer KEY' " if asks(settings) else ""
        secure = "" if settings.certfile is None else "s"
        how = (
            f"  Open   http{secure}://{address}/\n"
            f"  or     wscat {key}-c 'ws{secure}://{address}{SOCKET_PATH}?{query}'"
            "   and type a line\n"
        )
    return f"{ready}\n{how}  stop   Ctrl-C\n"
