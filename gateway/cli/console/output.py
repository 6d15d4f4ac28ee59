"""The lines that commands print beside their results, their faults, and the key that none prints.

Owns: prefixes and streams. Must not know: commands. Results go to standard output by `print`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from gateway.cli.console.terminal import printable
from gateway.settings.catalogue import KEY

NEEDS_KEY = f"If the gateway requires an API key, set the variable {KEY}."
"""End of the help of commands that talk to a gateway."""


def note(line: str) -> None:
    """Print a line of progress on stderr, beside what a command prints."""
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
