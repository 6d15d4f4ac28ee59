"""Listening sockets of a gateway, and their options.

Owns: how a port is taken, which options accepted connections inherit, and how many files the
process may open. Must not know: what is served, HTTP, rooms.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys

from gateway.limits import Limits
from gateway.server.uvicorn.http import SPARE
from gateway.settings.catalogue import Settings

if sys.platform != "win32":
    import resource

log = logging.getLogger("gateway.process")

UNSENT_BYTES = 16_384
"""TCP_NOTSENT_LOWAT: unsent bytes that the kernel keeps per socket. Without it, some 4 MB of stale
captions pile up there before a slow reader is noticed; captions need a few hundred bytes."""
SEND_BYTES = 65_536
"""SO_SNDBUF, which Linux doubles. Sent bytes without an acknowledgement count too, so one socket
holds no more than 128 KiB of kernel memory. At 200 ms of delay that is half a megabyte a second."""
RECEIVE_BYTES = 16_384
"""SO_RCVBUF. uvicorn parses everything that one read returns before anything else runs: 256 KiB of
the smallest frames take a fifth of a second."""
SILENT_S = 1.0
"""TCP_USER_TIMEOUT, in seconds beyond the ping timeout. It ends connections that the gateway itself
does not watch, such as an HTTP response that nobody reads."""
BACKLOG = 2048
"""Connections that the kernel holds until they are accepted."""
FILES = 128
"""Open files beside the connections: the model, the store, the log, an engine's own sockets."""
SYSTEMD_FD = 3
"""First descriptor that systemd passes (sd_listen_fds(3))."""


def listen(
    host: str, port: int, *, reuse: bool = False, settings: Settings | None = None
) -> socket.socket:
    """Return a listening socket, whose options accepted sockets inherit.

    Raises `OSError` with advice if the address cannot be used.

    :param reuse: share the port with other processes (SO_REUSEPORT)
    :param settings: for the seconds after which a silent client is given up
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets whose protocol is named, not on those with 0.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        _tune(listener, settings or Settings())
        listener.bind((host, port))
        if not reuse:  # on a shared port, asyncio listens once this process can answer
            listener.listen(BACKLOG)
    except OSError as exc:
        listener.close()
        why, advice = exc.strerror or str(exc), "Choose another --host."
        if exc.errno == errno.EADDRINUSE:
            why = "another program uses this port"
            advice = "End that one, or choose another --port."
        elif exc.errno == errno.EACCES:
            advice = "Choose a --port above 1023."
        raise OSError(f"Cannot listen on {host}:{port}: {why}. {advice}") from exc
    return listener


def inherited(settings: Settings | None = None) -> socket.socket | None:
    """Return the listening socket that systemd passed (sd_listen_fds(3)), or None.

    Raises `OSError` if systemd passed several sockets or one that does not listen.
    """
    # Such a socket outlives the process: clients that connect while nobody accepts wait for the
    # next process.
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    count = os.environ.get("LISTEN_FDS")
    if count != "1":
        raise OSError(f"LISTEN_FDS is {count}: pass one listening socket.")
    listener = socket.socket(fileno=SYSTEMD_FD)
    if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listener.close()
        raise OSError("The socket that was passed does not listen: in systemd, set Accept=no.")
    listener.set_inheritable(False)
    _tune(listener, settings or Settings())
    return listener


def descriptors(limits: Limits) -> int:
    """Raise the limit of open files as the limits need; return the allowed connections."""
    if sys.platform == "win32":  # it has no such limit
        return limits.sessions + SPARE
    wanted = limits.sessions + SPARE + FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < wanted:
            log.warning("only %d files may be open, but %d are needed: see ulimit -n", soft, wanted)
            return max(1, soft - FILES)
    return limits.sessions + SPARE


def _tune(listener: socket.socket, settings: Settings) -> None:
    listener.setblocking(False)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
    silent_ms = 0.0  # the system's default, a quarter of an hour
    if settings.ping_s:
        silent_ms = 1000 * (2 * settings.ping_s + SILENT_S)
    options = (("TCP_NOTSENT_LOWAT", UNSENT_BYTES), ("TCP_USER_TIMEOUT", round(silent_ms)))
    for name, value in options:
        if hasattr(socket, name):  # Linux has both, other systems may not
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
