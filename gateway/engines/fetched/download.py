"""One file fetched over HTTP into a file: continued where it broke off, and checked.

Owns: requests, redirects, ranges, sums and the faults for people. Must not know: what the file is
for. Everything here blocks.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import httpx2

from gateway.errors import EngineFault
from gateway.io.http import certificates

TRIES = 5
"""Requests in a row that bring nothing, after which the fetch fails. The bytes so far stay."""

PAUSE_S = 2.0
"""Seconds before a further request."""

TIMEOUT_S = 30.0
"""Seconds of silence after which a request has failed."""

SPARE = 2**28
"""Bytes that a fetch leaves free on the disk: a model takes up to as much while it is converted."""

STEP = 10_000_000
"""Bytes between two reports."""

DIGEST = re.compile(r'"?([0-9a-f]{64})"?')
"""Pattern of a SHA-256 in a header."""

Report = Callable[[int, int | None], None]
"""A function that is told the bytes that have come, and the bytes of the whole file if known."""


def fetch(
    address: str,
    target: Path,
    *,
    sha256: str = "",
    report: Report = lambda came, size: None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Fetch a file, whose beginning may lie in ``target`` with ``.part`` behind. Raises
    `EngineFault`, with a sentence for the operator.

    :param sha256: digest of the file. Empty: that of the header ``X-Linked-ETag``, if there is one
    """
    part = target.with_name(target.name + ".part")
    with _locked(part) as file, _client() as client:
        failures, why = 0, ""
        while failures < TRIES:
            before = file.seek(0, 2)
            try:
                digest = _continue(client, address, file, report)
            except httpx2.TransportError as exc:
                why = str(exc) or type(exc).__name__
                failures = 0 if file.seek(0, 2) > before else failures + 1
                sleep(PAUSE_S)
                continue
            except OSError as exc:
                raise EngineFault(f"{part} cannot be written: {exc.strerror or exc}.") from exc
            _check(file, sha256 or digest, address)
            part.rename(target)
            return
    came = part.stat().st_size
    raise EngineFault(
        f"{address} could not be fetched: {why}.",
        hint=f"{came / 1e6:.0f} MB have come; the next try continues there.",
    )


def _client() -> httpx2.Client:
    # The addresses are of this package or of the operator, and the requests have no secrets.
    return httpx2.Client(
        follow_redirects=True,
        headers={"accept-encoding": "identity"},
        max_redirects=5,
        timeout=TIMEOUT_S,
        verify=certificates(),
    )


def _continue(client: httpx2.Client, address: str, file: BinaryIO, report: Report) -> str:
    """Fetch the rest of a file; return its SHA-256 if the server has sent one.

    Raises `httpx2.TransportError` if the connection breaks, `OSError`, and `EngineFault`.
    """
    came = file.seek(0, 2)
    headers = {"range": f"bytes={came}-"} if came else {}
    try:
        with client.stream("GET", address, headers=headers) as answer:
            chain = [*answer.history, answer]
            if address.startswith("https:") and any(step.url.scheme != "https" for step in chain):
                raise EngineFault(f"{address} leads to an address without TLS.")
            # A hub sends it with the redirect to a large file.
            linked = (step.headers.get("x-linked-etag", "") for step in chain)
            digest = next((hit[1] for hit in map(DIGEST.fullmatch, linked) if hit), "")
            if answer.status_code == 416 and _total(answer.headers) == came:
                return digest  # nothing is missing
            if answer.status_code == 416:
                file.truncate(0)
                raise httpx2.ReadError("another file lies there now")
            if answer.status_code not in (200, 206):
                raise EngineFault(
                    f"{address} cannot be fetched: HTTP {answer.status_code}"
                    f" from {answer.url.host}.",
                    hint="The file may have moved. Name a directory with --model instead.",
                )
            if answer.status_code == 200:
                came = 0
                file.truncate(0)
            file.seek(came)
            size = _total(answer.headers)
            _require_space(file, (size or 0) - came)
            told = came
            for piece in answer.iter_raw():  # each as it comes, so that nothing is lost at a break
                came += file.write(piece)
                if came - told >= STEP or came == size:
                    told = came
                    report(came, size)
            if size is not None and came < size:
                raise httpx2.ReadError("the answer ended early")
            return digest
    except httpx2.TooManyRedirects as exc:
        raise EngineFault(f"{address} leads through too many redirects.") from exc
    finally:
        file.flush()


def _total(headers: Mapping[str, str]) -> int | None:
    """Return the size of the whole file, if the answer says it."""
    total = headers.get("content-range", "").rpartition("/")[2] or headers.get("content-length", "")
    return int(total) if total.isdigit() else None


def _require_space(file: BinaryIO, more: int) -> None:
    folder = Path(file.name).parent
    free = shutil.disk_usage(folder).free
    if free < more + SPARE:
        raise EngineFault(
            f"The disk of {folder} has {free / 1e6:.0f} MB left,"
            f" and {(more + SPARE) / 1e6:.0f} are needed."
        )


def _check(file: BinaryIO, sha256: str, address: str) -> None:
    """Raise `EngineFault`, and empty the file, if it has another digest."""
    file.seek(0)
    digest = hashlib.file_digest(cast(Any, file), "sha256").hexdigest() if sha256 else ""
    if digest != sha256:
        file.truncate(0)
        raise EngineFault(
            f"{address} has another content than it should have: SHA-256 {digest}, not {sha256}.",
            hint="Try again; if that does not help, the file was changed.",
        )


@contextlib.contextmanager
def _locked(part: Path) -> Iterator[BinaryIO]:
    """Open a file that no other process fetches at the same time. Raises `EngineFault`."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("ab+")
    except OSError as exc:
        raise EngineFault(f"{part} cannot be written: {exc.strerror or exc}.") from exc
    with file:
        try:
            import fcntl  # not on Windows

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            pass
        except OSError as exc:
            raise EngineFault(f"Another process fetches {part.name} at the moment.") from exc
        yield cast(BinaryIO, file)
