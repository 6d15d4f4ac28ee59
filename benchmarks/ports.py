"""Ports for servers that run in processes of their own.

Owns: the choice of a port before its server starts. Must not know: servers.
"""

from __future__ import annotations

import itertools
import os
import socket

FIRST = 16_000
"""Lowest port. Sockets that ask for any port, and those of clients, get one above 32767 from the
kernel. So none of them takes a port of this range before its server has started."""
EACH = 100
"""Ports for one process."""
BLOCKS = 160
"""Processes with ports of their own: tests run in several processes at the same time."""

_begin = FIRST + os.getpid() % BLOCKS * EACH
_ports = itertools.cycle(range(_begin, _begin + EACH))


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens.

    It stays free until its server starts, also while the server restarts.
    """
    while True:
        port = next(_ports)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:  # in use, by another program perhaps
                continue
        return port
