"""The command ``gateway top``: its flags and its exit status.

Owns: the command line. Must not know: figures, the terminal.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from caption_tools.top.poll import Poller
from caption_tools.top.screen import TopScreen
from gateway.cli.flags import URL, positive
from gateway.cli.terminal import api_key
from gateway.settings.catalogue import KEY


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add("urls", nargs="*", metavar="URL", help=f"addresses of gateways; default: {URL}")
    once = (
        "print one table and end, with status 1 if a gateway is not ready; the default if the"
        " output is no terminal"
    )
    add("--once", action="store_true", help=once)
    every = "seconds between two readings; default: %(default)g"
    add("--every", type=positive, default=2.0, metavar="SECONDS", help=every)
    parser.epilog = (
        "Keys: q ends, s sorts by the next column, r reverses the order. first: from the end of a"
        " text to the first text of its caption. final: to the end of the caption. If the gateways"
        f" require an API key, set the variable {KEY} to one that may moderate."
    )


def run(args: argparse.Namespace) -> int:
    """Run the command, and return its exit status. Raises `ValueError` for a wrong address."""
    urls = dict.fromkeys(args.urls or [URL])
    screen = TopScreen([Poller(url, api_key()) for url in urls], args.every)
    # Frames that replace each other are of no use in a pipe or a file.
    once = args.once or not sys.stdout.isatty()
    return asyncio.run(screen.once() if once else screen.live())
