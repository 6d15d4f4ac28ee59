"""The command line of a benchmark that is a package: parser, errors, exit status.

Owns: exit statuses: 0, 1 for a failure, 2 for a wrong command line, 130 after Ctrl-C. Must not
know: what is measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from gateway.errors import GatewayError
from gateway.settings.catalogue import SettingsError

Line = Callable[[str], None]
"""A function that prints one line."""


def main(
    name: str,
    text: str,
    add: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace, Line, Line], int],
    argv: Sequence[str] | None = None,
) -> int:
    """Parse a command line and run the benchmark; return the exit status.

    :param name: the module that ``python -m`` runs
    :param text: the description for ``--help``
    :param add: adds the flags to the parser
    :param run: gets the flags, a printer for the report and one for progress

    Raises `SystemExit` as argparse does.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=text, allow_abbrev=False)
    add(parser)
    args = parser.parse_args(argv)
    try:
        return run(args, print, _progress)
    except SettingsError as exc:
        return _complain(f"{exc}\nSee: {parser.prog} --help", 2)
    except (GatewayError, OSError, ValueError) as exc:
        return _complain(str(exc), 1)
    except KeyboardInterrupt:
        return 130


def _progress(line: str) -> None:
    print(line, file=sys.stderr)


def _complain(text: str, status: int) -> int:
    print(f"benchmarks: {text}", file=sys.stderr)
    return status
