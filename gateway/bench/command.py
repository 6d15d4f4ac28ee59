"""``gateway bench``: the measurements there are.

Owns: their names. Must not know: what any of them does.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import ModuleType

from gateway.bench.journey import command as journey
from gateway.bench.load import command as load

BENCHES: dict[str, ModuleType] = {"load": load, "journey": journey}
"""Each has ``TEXT``, ``add(parser)`` and ``run(args, say, tell)``, which returns the exit status;
``say`` writes a line of the report, ``tell`` one of what is going on."""


def add(parser: argparse.ArgumentParser) -> None:
    """A command for each."""
    kinds = parser.add_subparsers(dest="bench", metavar="|".join(BENCHES), required=True)
    for name, module in BENCHES.items():
        made = kinds.add_parser(name, help=module.TEXT, description=module.TEXT, allow_abbrev=False)
        module.add(made)
        made.set_defaults(measure=module.run)


def run(args: argparse.Namespace, say: Callable[[str], None], tell: Callable[[str], None]) -> int:
    """Run the one that was asked for; the exit status."""
    status: int = args.measure(args, say, tell)
    return status
