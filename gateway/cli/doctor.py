"""The command ``gateway doctor``: whether a gateway with these settings can start.

Owns: the order of the checks. Must not know: how the parts work. It makes the calls of ``gateway
serve`` up to the point at which that begins to listen, to load a model and to open the rooms, so
that both refuse the same settings in the same words. Like ``nginx -t``, it can run beside the
gateway that it is to replace.
"""

from __future__ import annotations

import argparse
from collections import Counter

from gateway import __version__
from gateway.cli.flags import add_settings, engine_of, loaded
from gateway.server.build import build
from gateway.server.process import lan
from gateway.server.process.listener import check_certificate, descriptors, listen
from gateway.server.process.logs import set_up_logs
from gateway.settings import catalogue


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_settings(parser)


def run(args: argparse.Namespace) -> int:
    """Make the parts of a gateway and return the exit status. Raises the first fault of a part."""
    set_up_logs("warning")
    given = loaded(args)
    settings = given.settings
    catalogue.check(settings)
    check_certificate(settings)
    listen(lan.host(settings), settings.port, reuse=settings.reuse_port, settings=settings).close()
    descriptors(settings.limits)  # warns if they are too few
    engine = engine_of(settings)
    build(settings, engine, Counter())
    names = ", ".join(f"{name} ({origin})" for name, origin in sorted(given.origins.items()))
    print(f"caption-gateway {__version__} with {engine.name} can start.")
    print(f"Settings: {names or 'all defaults'}.")
    return 0
