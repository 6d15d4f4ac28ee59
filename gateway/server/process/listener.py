"""Listening sockets of a gateway, their options, and the check of its TLS certificate.

Owns: how a port is taken, which options accepted connections inherit, how many files the process
may open, and what is wrong with a certificate or its key, in words. Must not know: what is served,
HTTP, rooms.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
import sys
from pathlib import Path

from gateway.limits import Limits
from gateway.server.uvicorn.http import SPARE
from gateway.settings.catalogue import Settings, SettingsError

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

    Other processes share the port with ``reuse`` (SO_REUSEPORT). The settings have the seconds
    after which a silent client is given up.

    Raises `OSError` with advice if the address cannot be used.
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


MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""OpenSSL's reasons for a key that belongs to another certificate, or is of another kind."""


def check_certificate(settings: Settings) -> None:
    """Raise `SettingsError` if the certificate cannot be used. uvicorn would report it late."""
    if settings.certfile is None:
        if settings.keyfile is not None:
            raise SettingsError("--keyfile needs its certificate: name that with --certfile.")
        return
    certfile, keyfile = settings.certfile, settings.keyfile or settings.certfile
    if b"CERTIFICATE-----" not in _read("certfile", certfile):
        raise SettingsError(f"{certfile} holds no certificate in PEM form. Check --certfile.")
    key = _read("keyfile" if settings.keyfile else "certfile", keyfile)
    if b"PRIVATE KEY-----" not in key:
        raise SettingsError(f"{keyfile} holds no private key in PEM form. Name one with --keyfile.")
    if b"ENCRYPTED" in key:
        raise SettingsError(
            f"The private key in {keyfile} is encrypted. Write a copy without a passphrase"
            f" (openssl pkey -in {keyfile} -out FILE) and name it with --keyfile."
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password OpenSSL would ask for one on the terminal and wait.
        context.load_cert_chain(expanded(certfile), expanded(keyfile), password="-")
    except ssl.SSLError as exc:
        if exc.reason in MISMATCHES:
            raise SettingsError(
                f"The key in {keyfile} does not belong to the first certificate in {certfile}."
            ) from exc
        raise SettingsError(
            f"OpenSSL cannot use {certfile} with {keyfile} ({exc.reason or exc})."
        ) from exc


def expanded(name: str) -> Path:
    """Return the path of a file setting, with ``~`` expanded."""
    return Path(name).expanduser()


def _read(setting: str, file: str) -> bytes:
    """Read the file that a setting names. Raises `SettingsError`."""
    try:
        return expanded(file).read_bytes()
    except OSError as exc:
        raise SettingsError(f"{file} cannot be read: {exc.strerror}. Check --{setting}.") from exc
