"""Ports for servers that run in processes of their own.

Owns: the choice of a port before its server starts. Must not know: servers.
"""

from __future__ import annotations

import atexit
import itertools
import os
import socket
from collections.abc import Iterator
from functools import cache

FIRST = 16_000
"""Lowest port. Sockets that ask for any port, and those of clients, get one above 32767 from the
kernel. So none of them takes a port of this range before its server has started."""
EACH = 100
"""Ports for one process."""
BLOCKS = 160
"""Processes with ports of their own: tests run in several processes at the same time."""


@cache
def _ports() -> Iterator[int]:
    """Return the ports of this process again and again.

    Its first port is bound until it ends, so that no other process takes the block: those of two
    test runs at the same time could have process ids that differ by a multiple of `BLOCKS`.
    """
    for number in range(os.getpid(), os.getpid() + BLOCKS):
        first = FIRST + number % BLOCKS * EACH
        claim = socket.socket()
        try:
            claim.bind(("127.0.0.1", first))
        except OSError:
            claim.close()
            continue
        atexit.register(claim.close)
        return itertools.cycle(range(first + 1, first + EACH))
    raise OSError(f"All {BLOCKS} blocks of ports from {FIRST} on are taken by other processes.")


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens.

    It stays free until its server starts, also while the server restarts.
    """
    while True:
        port = next(_ports())
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:  # in use, by another program perhaps
                continue
        return port
