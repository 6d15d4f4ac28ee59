"""The command ``gateway top``: its flags and its exit status.

Owns: the command line, and what is said if the extra `tools` is missing. Must not know: figures,
the terminal.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from importlib.util import find_spec

from gateway.cli.console.args import positive
from gateway.settings.catalogue import KEY

MISSING = "gateway top needs Rich: pip install 'caption-gateway[tools]'"


def add(parser: argparse.ArgumentParser, url: str) -> None:
    """Add the flags of the command.

    :param url: address of a gateway with its usual settings
    """
    parser.add_argument(
        "urls", nargs="*", metavar="URL", help=f"addresses of gateways; default: {url}"
    )
    parser.set_defaults(default_url=url)
    parser.add_argument(
        "--once",
        action="store_true",
        help="print one table and end, with status 1 if a gateway is not ready; the default if the"
        " output is no terminal",
    )
    parser.add_argument(
        "--every",
        type=positive,
        default=2.0,
        metavar="SECONDS",
        help="seconds between two readings; default: %(default)g",
    )
    parser.epilog = (
        "Keys: q ends, s sorts by the next column, r reverses the order. first: from the end of a"
        " text to the first text of its caption. final: to the end of the caption. If the gateways"
        f" require an API key, set the variable {KEY} to one that may moderate."
    )


def run(args: argparse.Namespace, *, key: str | None) -> int:
    """Run the command, and return its exit status. Raises `ValueError` for a wrong address.

    :param key: API key with the role ``moderate``, if the gateways require keys
    """
    if find_spec("rich") is None:
        raise ValueError(MISSING)
    from gateway.cli.top.poll import Poller
    from gateway.cli.top.screen import TopScreen

    urls = dict.fromkeys(args.urls or [args.default_url])
    screen = TopScreen([Poller(url, key) for url in urls], args.every)
    # Frames that replace each other are of no use in a pipe or a file.
    once = args.once or not sys.stdout.isatty()
    return asyncio.run(screen.once() if once else screen.live())
