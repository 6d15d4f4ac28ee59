"""The lines that commands print beside their results, their faults, and the key that none prints.

Owns: prefixes and streams. Must not know: commands. Results go to standard output by `print`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import ParamSpec, TypeVar

from gateway.cli.console.terminal import printable
from gateway.client import Refused
from gateway.settings.catalogue import KEY

P = ParamSpec("P")
T = TypeVar("T")
NEEDS_KEY = f"If the gateway requires an API key, set the variable {KEY}."
"""End of the help of commands that talk to a gateway."""


def note(line: str) -> None:
    """Print a line of progress on stderr, beside the output of a command."""
    print(f"# {printable(line)}", file=sys.stderr)


def complain(text: str) -> None:
    """Print a failure or a warning on stderr."""
    with contextlib.suppress(OSError):  # a full disk must not stop a gateway that serves
        print("gateway:", "\n".join(map(printable, text.split("\n"))), file=sys.stderr)


def api_key() -> str | None:
    """Return the API key from the environment.

    No flag has it: other users of the machine can read those.
    """
    return os.environ.get(KEY) or None


@contextlib.contextmanager
def first_fault(*kinds: type[Exception]) -> Iterator[None]:
    """Raise the first fault of these kinds alone if a group of tasks ends with it."""
    try:
        yield
    except ExceptionGroup as group:
        fault: Exception | None = group.subgroup(kinds)
        # Anything else is a bug and keeps its traceback.
        if fault is None:
            raise
        while isinstance(fault, ExceptionGroup):
            fault = fault.exceptions[0]
        raise fault from None


async def accepted(ask: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
    """Ask until the gateway does not refuse it for the moment only. Raises `Refused`."""
    while True:
        try:
            return await ask(*args, **options)
        except Refused as exc:
            # A permanent refusal would be repeated for ever.
            if not exc.error.retry:
                raise
            ms = exc.error.retry_ms
            await asyncio.sleep(1.0 if ms is None else ms / 1000)
