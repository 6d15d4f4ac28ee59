"""The command ``gateway doctor``: what a gateway needs from its machine, one line for each.

Owns: the checks that need no running gateway, and their sentences. Must not know: how the parts
work; each check calls what ``gateway serve`` calls at its start, or asks the operating system.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path

import msgspec
from cryptography import x509
from msgspec.structs import replace

from gateway import __version__
from gateway.cli.flags import add_settings, engine_of, load_flags
from gateway.engines import registry
from gateway.engines.base.engine import Engine
from gateway.errors import GatewayError
from gateway.server.access.authenticator import build as build_authenticator
from gateway.server.build import build_speech, default_language
from gateway.server.process import lan
from gateway.server.process.certificate import check_certificate, expanded
from gateway.server.process.listener import FILES, descriptors, listen
from gateway.server.process.logs import set_up_logs
from gateway.server.routes.page import FOLDERS, PAGE, ROOTS
from gateway.server.uvicorn.http import SPARE
from gateway.settings import catalogue
from gateway.settings.catalogue import EngineTable, Settings, SettingsError
from gateway.settings.loading import LoadedSettings
from gateway.storage.sqlite import store as sqlite

PATIENCE_S = 10.0  # seconds to wait for a model server, for Redis and for the driver of a GPU
EXPIRES_SOON = timedelta(days=14)
"""Time before the end of a certificate from which on it is worth a note."""


class CheckFailed(Exception):
    """The end of a check, with a sentence that names the fault and the remedy."""


Check = Callable[[Settings], Iterator[str]]
"""A check. It yields lines of good news, or of notes if they begin with `NOTE`."""

NOTE = "note: "  # beginning of a line that is worth knowing, though the gateway would start


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_settings(parser)


def run(args: argparse.Namespace) -> int:
    """Print a line for each finding as soon as it is known, and return the exit status.

    A line begins with ``ok``, ``note`` for a risk, or ``fail`` for a fault that prevents a
    start, with what to do.
    """
    set_up_logs("error")
    failed = 0
    for subject, text, *bad in findings(load_flags(args)):
        state = "fail" if bad else "note" if text.startswith(NOTE) else "ok"
        print(f"{state:5} {subject:13} {text.removeprefix(NOTE)}", flush=True)
        failed += bool(bad)
    print(f"\n{failed or 'No'} check{'s' * (failed > 1)} failed.")
    return 1 if failed else 0


def findings(loaded: LoadedSettings) -> Iterator[tuple[str, ...]]:
    """Yield the results of all checks, in the order in which a start would meet the faults.

    They are (subject, text); that of a failure has a third item.
    """
    names = sorted(loaded.origins)
    given = ", ".join(f"{name} ({loaded.origins[name]})" for name in names)
    yield "version", f"caption-gateway {__version__}, Python {platform.python_version()}"
    yield "settings", f"{len(names)} are set: {given}" if names else "All defaults."
    for warning in loaded.warnings:
        yield "settings", NOTE + warning
    for subject, check in CHECKS.items():
        try:
            for text in check(loaded.settings):
                yield subject, text
        except (CheckFailed, GatewayError, SettingsError, OSError) as exc:
            hint = getattr(exc, "hint", None)
            yield subject, f"{exc} {hint}" if hint else str(exc), "fail"


# --- checks, in the order of `CHECKS` -----------------------------------------------------------


def access(settings: Settings) -> Iterator[str]:
    """Check who may use the gateway: its keys, and whether it is open to others without any."""
    catalogue.refuse_exposure(settings)
    build_authenticator(settings)
    if catalogue.asks(settings):
        yield "Callers present a key or a token."
    elif settings.lan:
        yield "Keys are made at the start, for this start."
    elif catalogue.loopback(settings.host):
        yield "No key is required. Only this machine can reach the gateway."
    else:
        yield f"{NOTE}No key is required, and everybody who reaches {settings.host} may use it."


def port(settings: Settings) -> Iterator[str]:
    """Check whether the port is free."""
    host = lan.host(settings)
    address = f"{host}:{settings.port}"
    try:
        listen(host, settings.port, reuse=settings.reuse_port, settings=settings).close()
    except OSError:
        version = _gateway_at(host, settings.port)
        if version is None:
            raise
        yield (
            f"{NOTE}A gateway ({version}) already listens on {address}. A second one needs another"
            " --port, or both --reuse-port."
        )
    else:
        yield f"{address} is free." if settings.port else "A free one is chosen at the start."


def _gateway_at(host: str, port: int) -> str | None:
    """Return the version of the gateway that answers at an address without TLS, if one does."""
    connection = http.client.HTTPConnection(host, port, timeout=2.0)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/healthz")
            answer = msgspec.json.decode(connection.getresponse().read(1000), type=dict[str, str])
        except (OSError, http.client.HTTPException, msgspec.DecodeError):
            return None
    return answer.get("version") if answer.get("status") == "ok" else None


def certificate(settings: Settings) -> Iterator[str]:
    """Check the certificate and its key, and how long it is valid."""
    check_certificate(settings)
    if settings.certfile is None:
        return
    (first, *_) = x509.load_pem_x509_certificates(expanded(settings.certfile).read_bytes())
    end, now = first.not_valid_after_utc, datetime.now(UTC)
    if end < now:
        raise CheckFailed(f"{settings.certfile} expired on {end:%Y-%m-%d}. Get a new certificate.")
    if first.not_valid_before_utc > now:
        raise CheckFailed(
            f"{settings.certfile} is valid from {first.not_valid_before_utc:%Y-%m-%d} on only."
            " Check the clock of this machine."
        )
    soon = NOTE if end - now < EXPIRES_SOON else ""
    yield f"{soon}{settings.certfile} is valid until {end:%Y-%m-%d}."


def files(settings: Settings) -> Iterator[str]:
    """Check how many files the process may open: each socket is one."""
    wanted = settings.limits.sessions + SPARE
    allowed = descriptors(settings.limits)
    if allowed < wanted:
        yield (
            f"{NOTE}Only {allowed} connections fit, and the limits allow {wanted}. Raise the limit"
            f" of open files to {wanted + FILES} (ulimit -n, or LimitNOFILE in systemd), or lower"
            " --limit-sessions."
        )
    else:
        yield f"{wanted} connections fit."


def rooms(settings: Settings) -> Iterator[str]:
    """Check where rooms are kept: in a file, in Redis, or in this process only."""
    catalogue.refuse_two_stores(settings)
    if settings.redis is not None:
        yield from _redis(settings.redis)
    elif settings.store is None:
        yield "Rooms are kept in memory, and nothing is written to disk."
    else:
        sqlite.build(settings)
        file = Path(settings.store.removeprefix(sqlite.SQLITE)).expanduser()
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise CheckFailed(
                f"{file} cannot be written. --store has to name a file in a directory that exists,"
                " and that this user may write."
            )
        yield f"{file} {'is there' if file.exists() else 'will be made'}, and can be written."


def _redis(url: str) -> Iterator[str]:
    if None in map(importlib.util.find_spec, ("redis", "hiredis")):
        raise CheckFailed("redis needs the extra: pip install 'caption-gateway[redis]'.")
    from redis import Redis, RedisError

    try:
        with Redis.from_url(url, socket_timeout=2.0, socket_connect_timeout=2.0) as client:
            version = client.info("server")["redis_version"]
    except (RedisError, ValueError, OSError) as exc:
        where = re.sub(r"//[^/@]*@", "//", url)  # without a password
        why = str(exc).rstrip(".")
        raise CheckFailed(f"{where} does not answer: {why}. Start it, or check --redis.") from exc
    yield f"Redis {version} answers."


def page(settings: Settings) -> Iterator[str]:
    """Check whether the files of the page are there."""
    if not any((root / PAGE / "index.html").is_file() for root in ROOTS):
        raise CheckFailed(
            f"The files of the page ({', '.join(FOLDERS)}) are missing. Install the gateway again:"
            " pip install --force-reinstall caption-gateway."
        )
    yield "The files of the page are there."


def engines(settings: Settings) -> Iterator[str]:
    """Check each engine: its package, its model, its GPU or its server. Loads no model."""
    default_language(settings)
    engine_of(settings)  # the pairs of several engines, the fallback
    for table in catalogue.engines(settings):
        yield from _engine(table)


def _engine(table: EngineTable) -> Iterator[str]:
    settings = replace(table.settings, engines=(), fallback=None)
    if settings.engine == "openai":
        engine = registry.build(settings)
        asyncio.run(_start(engine))
        yield f"{engine.name} answers at {settings.openai_url}."
    else:
        engine = engine_of(settings)
    if settings.engine == "vllm":
        yield from _vllm()
    model = engine.profile
    pairs = sum(
        model.supports(source, target) for source in model.sources for target in model.targets
    )
    yield f"{engine.name} translates {pairs} pairs of {len(model.sources)} languages."


async def _start(engine: Engine) -> None:
    """Ask the server of an engine for its models. Raises `EngineFault`, `CheckFailed`."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await engine.start()
    except TimeoutError as exc:
        raise CheckFailed(
            f"The model server does not answer within {PATIENCE_S:g} s. Check --openai-url."
        ) from exc
    finally:
        await engine.aclose()


def _vllm() -> Iterator[str]:
    """Check the version of vLLM and the GPU, without importing vLLM, which takes seconds."""
    version = metadata.version("vllm")
    oldest, newest = (".".join(map(str, version)) for version in VLLM)
    installed = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not VLLM[0] <= installed <= VLLM[1]:
        yield (
            f"{NOTE}vLLM {version} was never tried with this gateway, which knows {oldest} to"
            f" {newest}: pip install 'caption-gateway[vllm]'."
        )
    else:
        yield f"vLLM {version} is installed."
    if (program := shutil.which("nvidia-smi")) is None:
        raise CheckFailed(
            "No GPU is found: nvidia-smi is missing. Install the driver of NVIDIA, or translate on"
            " the CPU with --engine ctranslate2."
        )
    query = [program, "--query-gpu=name,memory.free,driver_version", "--format=csv,noheader"]
    try:
        asked = subprocess.check_output(query, text=True, timeout=PATIENCE_S)
    except (subprocess.SubprocessError, OSError) as exc:
        raise CheckFailed(f"nvidia-smi reports no GPU ({exc}). Check the driver.") from exc
    for gpu in asked.splitlines():
        name, free, driver = (part.strip() for part in gpu.split(","))
        yield f"{name}, {free} free, driver {driver}."


VLLM = ((0, 25), (0, 33))
"""Oldest and newest version of vLLM that the gateway was tried with; a test compares them with the
extra."""


def speech(settings: Settings) -> Iterator[str]:
    """Check the recogniser: its packages, and whether its model is there."""
    if settings.recogniser is None:
        yield "None; clients send text. See --recogniser."
    else:
        yield f"{build_speech(settings).recogniser.name} can be used."


CHECKS: dict[str, Check] = {
    **{"access": access, "certificate": certificate, "port": port, "open files": files},
    **{"rooms": rooms, "page": page, "engine": engines, "speech": speech},
}
"""The checks by the subject that is printed."""
