"""The architecture, as imports: who may know whom, and who may know the world.

The core decides and the rims act. A module imports only from rows above its own, so that there is
no cycle; a new module has to be given its place here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import gateway

ROOT = Path(gateway.__file__).parent

ROWS: tuple[tuple[str, ...], ...] = (
    ("", "errors", "job", "limits", "messages"),
    (
        "address",
        "captions",
        "detect",
        "dial",
        "engines.feed",
        "engines.orphan",
        "framing",
        "glossary",
        "load",
        "lock",
        "origin",
        "pace",
        "phrases",
        "pin",
        "recovery",
        "scrape",
        "sentences",
        "server",
        "server.garbage",
        "server.page",
        "server.inbound",
        "terminal",
    ),
    (
        *("bench", "bench.stats", "bench.table", "codec", "cues", "dispatch"),
        *("engines.conversion", "flags", "languages", "link", "log", "owner"),
        *("server.handover", "server.upgrade", "token"),
    ),
    (
        "bench.chart",
        "bench.page",
        "bench.schedule",
        "exchange",
        "profiles.profile",
        "server.pinned",
        "store",
        "tables",
        "transcript",
        "units",
    ),
    ("admission", "client", "database", "formats", "pending", "profiles.find", "segment"),
    ("lexis", "outbox", "profiles", "schema", "stability", "statements"),
    ("circle", "flow", "utterance", "verdict"),
    (
        "engines.api",
        "engines.base",
        "engines.completions",
        "engines.vocabulary",
        "guards",
        "intake",
        "member",
        "settings",
        "speech",
    ),
    ("audience", "booth", "grant", "memory", "sqlite"),
    ("floor", "history", "keys", "minutes", "quota", "recall", "ticket"),
    ("claims", "room"),
    ("reader", "server.issuer", "server.jobs", "server.lan"),
    ("server.gate",),
    # A client of the gateway: of its inside it knows units and languages.
    ("replay", "replay.recogniser", "replay.score", "tune", "tune.history"),
    ("replay.script",),
    ("replay.measure", "replay.watch"),
    ("replay.play", "replay.plot"),
    ("replay.record", "replay.report"),
    ("replay.command",),
    ("bench.load", "bench.load.frames", "bench.load.plan", "bench.text", "tune.steps"),
    (
        "bench.load.script",
        "bench.load.scrape",
        "bench.load.socket",
        "bench.load.tally",
        "tune.load",
    ),
    ("bench.load.guest", "bench.load.pipe", "bench.load.report", "tune.report"),
    ("bench.load.child", "bench.load.run"),
    ("bench.load.command",),
    ("engines.checkpoint", "engines.guarded", "engines.loaded", "engines.openai"),
    ("engines.scripted", "session"),
    ("seat", "server.door", "server.drain"),
    (
        "engines.ctranslate2",
        "engines.piecewise",
        "engines.supervisor",
        "engines.vllm",
        "server.hub",
    ),
    ("engines.fallback", "engines.lent"),
    ("engines", "server.connection", "server.metrics", "server.oneshot"),
    ("server.http",),
    ("server.events", "server.join", "server.libretranslate", "server.rooms", "server.tickets"),
    ("server.app", "server.openapi"),
    ("chat", "say", "server.process"),
    ("server.worker", "tune.sweep"),
    ("server.plugin", "server.workers", "tune.command"),
    ("cli",),
    ("__main__",),
)
ROW = {name: number for number, row in enumerate(ROWS) for name in row}

PURE = (
    *("errors", "job", "limits", "messages", "codec", "languages", "profiles", "sentences"),
    *("dispatch", "load", "outbox", "utterance", "log", "member", "glossary", "room", "session"),
    *("guards", "lexis", "phrases", "schema", "verdict", "engines.completions"),
    *("profiles.find", "profiles.profile"),
    *("units", "admission", "segment", "stability", "flow", "speech", "memory", "history"),
    *(
        "audience",
        "pending",
        "booth",
        "circle",
        "floor",
        "framing",
        "grant",
        "minutes",
        "quota",
        "reader",
        "recall",
        "token",
    ),
    *("cues", "transcript", "formats"),
    *("captions", "intake", "pace", "recovery", "store", "tables"),
    *("address", "claims", "keys", "origin", "pin", "seat", "ticket"),
    *("replay.recogniser", "replay.script", "replay.measure", "replay.plot"),
    *("tune", "tune.history", "tune.load", "tune.steps", "tune.report"),
    *(
        "bench",
        "bench.stats",
        "bench.table",
        "bench.chart",
        "bench.page",
        "bench.schedule",
        "bench.text",
    ),
    *("bench.load.frames", "bench.load.guest", "bench.load.plan"),
    *("bench.load.report", "bench.load.script", "bench.load.tally"),
)
"""Modules without a clock, a socket, a task, a model or chance."""

PURE_BENCHMARKS = (
    *("journey", "journey.cell", "journey.plan", "journey.published", "journey.report"),
    *("journey.texts", "soak.ledger", "soak.report"),
)
"""The same, of the packages in ``benchmarks/``."""

WORLD = {
    *("asyncio", "concurrent", "multiprocessing", "random", "secrets", "socket", "subprocess"),
    *("sqlite3", "threading", "time", "uuid"),
    *(
        "aiosqlite",
        "httpx2",
        "jwt",
        "prometheus_client",
        "starlette",
        "uvicorn",
        "uvloop",
        "websockets",
    ),
    *("ctranslate2", "py3langid", "sentencepiece", "tokenizers", "torch", "vllm"),
}

READS = "prometheus_client.parser"
"""A part of such a library that turns a text into data, and does nothing else."""

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")
    for path in ROOT.rglob("*.py")
)


@cache
def tree(name: str) -> ast.Module:
    base = (ROOT.parent if name.startswith("benchmarks.") else ROOT) / name.replace(".", "/")
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def imported(name: str) -> tuple[str, ...]:
    """Full names of what a module imports, wherever in it."""
    return tuple(_imported(name))


def _imported(name: str) -> Iterator[str]:
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"gateway.{name}: imports are absolute"
            source = node.module or ""
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                yield whole if whole.removeprefix("gateway.") in ROW else source


def ours(name: str) -> set[str]:
    """The modules of this package that a module imports."""
    return {
        other.removeprefix("gateway").removeprefix(".")
        for other in imported(name)
        if other == "gateway" or other.startswith("gateway.")
    }


def test_every_module_has_its_place() -> None:
    assert set(MODULES) == set(ROW)
    assert len(ROW) == sum(map(len, ROWS))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_from_rows_above_its_own(name: str) -> None:
    assert {other for other in ours(name) if ROW[other] >= ROW[name]} == set()


@pytest.mark.parametrize("name", PURE)
def test_the_pure_core_knows_nothing_of_the_world(name: str) -> None:
    known = {other.partition(".")[0] for other in imported(name) if other != READS}
    assert known & WORLD == set()


@pytest.mark.parametrize("name", PURE)
def test_the_pure_core_stands_on_itself_alone(name: str) -> None:
    assert ours(name) <= {"", *PURE}


@pytest.mark.parametrize("name", PURE_BENCHMARKS)
def test_the_pure_parts_of_the_benchmarks_know_nothing_of_the_world(name: str) -> None:
    known = imported(f"benchmarks.{name}")
    assert {other.partition(".")[0] for other in known} & WORLD == set()
    assert ours(f"benchmarks.{name}") <= {"", *PURE}
    beside = {other.removeprefix("benchmarks.") for other in known if other.startswith("benchm")}
    assert beside <= set(PURE_BENCHMARKS)


@pytest.mark.parametrize("name", MODULES)
def test_the_product_imports_nothing_from_the_rest_of_the_checkout(name: str) -> None:
    roots = {other.partition(".")[0] for other in imported(name)}
    assert roots & {"benchmarks", "fuzz", "tests", "training"} == set()


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("engines")])
def test_engines_do_not_know_the_server_nor_its_sessions(name: str) -> None:
    assert {
        other for other in ours(name) if other.startswith(("server", "session", "room", "codec"))
    } == set()


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("server")])
def test_the_server_knows_engines_by_their_protocol_only(name: str) -> None:
    known = {other for other in ours(name) if other.startswith("engines")}
    assert known <= (
        {"engines", "engines.base"}
        if name in ("server.plugin", "server.process")
        else {"engines.base"}
    )


@pytest.mark.parametrize("name", MODULES)
def test_a_broad_handler_raises_again_or_logs_the_traceback(name: str) -> None:
    for node in ast.walk(tree(name)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = (
            {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)} if node.type else set()
        )
        if node.type is None or caught & {"Exception", "BaseException"}:
            inside = [inner for statement in node.body for inner in ast.walk(statement)]
            assert any(
                isinstance(inner, ast.Raise)
                or (
                    isinstance(inner, ast.Call)
                    and isinstance(inner.func, ast.Attribute)
                    and (
                        inner.func.attr == "exception"
                        or "exc_info" in {keyword.arg for keyword in inner.keywords}
                    )
                )
                for inner in inside
            ), f"gateway.{name}, line {node.lineno}"
