"""The rule of imports, as a table of folders.

A module of `gateway/` imports from its own folder and from folders in rows above its own. No two
folders import each other in a circle, however deep they lie. Purity is a property of
folders too: `scripts/pure.py` has the list, which the coverage gate of `make pure` uses as well.
"""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import gateway
from scripts.pure import FOLDERS as PURE
from scripts.pure import TOOLS as PURE_TOOLS

ROOT = Path(gateway.__file__).parent
TOOLS = ROOT.parent / "tools" / "caption_tools"

ROWS: tuple[tuple[str, ...], ...] = (
    (".",),  # gateway/errors.py, job.py and limits.py
    ("io", "protocol", "text"),
    ("auth", "client"),
    ("core",),
    ("settings",),
    ("engines", "storage"),
    ("server",),
    ("cli",),
)
ROW = {folder: number for number, row in enumerate(ROWS) for folder in row}

WORLD = {
    *("asyncio", "concurrent", "multiprocessing", "random", "secrets", "socket", "subprocess"),
    *("sqlite3", "threading", "time", "uuid"),
    *("aiosqlite", "httpx2", "jwt", "prometheus_client", "redis", "starlette", "uvicorn", "uvloop"),
    *("av", "faster_whisper", "onnxruntime"),
    *("websockets", "ctranslate2", "sentencepiece", "tokenizers", "torch", "vllm"),
}
"""Modules that let in time, chance, tasks, sockets, files or models."""

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")
    for path in ROOT.rglob("*.py")
)


@cache
def tree(name: str) -> ast.Module:
    base = ROOT / name.replace(".", "/")
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def imported(name: str) -> tuple[str, ...]:
    """Return the full names of all modules that a module imports, in whichever function."""
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
                yield whole if whole.removeprefix("gateway.") in MODULES else source


def own(name: str) -> set[str]:
    """Return the modules of this package that a module imports, without the package's name."""
    return {
        other.removeprefix("gateway").removeprefix(".")
        for other in imported(name)
        if other == "gateway" or other.startswith("gateway.")
    }


def folder(name: str) -> str:
    """Return the folder of a module below `gateway/`, "." for `gateway/` itself."""
    path = ROOT / name.replace(".", "/")
    parent = path if path.is_dir() else path.parent
    return parent.relative_to(ROOT).as_posix()


def top(name: str) -> str:
    """Return the folder directly below `gateway/` that a module is in."""
    return folder(name).partition("/")[0]


MOST_LINES, MOST_LINES_OF_TESTS = 450, 500
MOST_ENTRIES = 18
MOST_PARAMETERS = 8
MOST_LETTERS = 80
MANY_PARAMETERS = {"gateway/client/api.py: connect"}
"""Functions that may have more, for a reason that is beside them."""
FILES = sorted(
    path for folder in (ROOT, TOOLS, Path(__file__).parent) for path in folder.rglob("*.py")
)

CHECKED = [name for name in MODULES if name != "__main__"]  # which starts the command line


def test_every_folder_has_a_row() -> None:
    assert {top(name) for name in MODULES} == set(ROW)
    assert len(ROWS) <= 10


@pytest.mark.parametrize("name", CHECKED)
def test_a_module_imports_only_from_its_own_folder_and_from_rows_above(name: str) -> None:
    mine = top(name)
    others = {top(other) for other in own(name)} - {mine}
    assert {other for other in others if ROW[other] >= ROW[mine]} == set()


def test_no_folder_imports_another_in_a_circle() -> None:
    """Imports for types alone count, and imports inside of functions too."""
    arrows: dict[str, set[str]] = {}
    for name in CHECKED:
        arrows.setdefault(place(name), set()).update(map(place, own(name)))
    for here, others in arrows.items():
        others.discard(here)
    list(graphlib.TopologicalSorter(arrows).static_order())  # raises CycleError


def place(name: str) -> str:
    """Return the folder of a module; a module directly in `gateway/` is a place of its own."""
    return name if folder(name) == "." else folder(name)


def test_the_package_has_at_most_18_entries_at_the_top() -> None:
    entries = {path.name for path in ROOT.iterdir()} - {"__pycache__"}
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def pure(name: str) -> bool:
    return folder(name) in PURE and name != "__main__"


@pytest.mark.parametrize("name", [name for name in MODULES if pure(name)])
def test_a_pure_module_knows_nothing_of_the_world(name: str) -> None:
    assert {other.partition(".")[0] for other in imported(name)} & WORLD == set()


@pytest.mark.parametrize("name", [name for name in MODULES if pure(name)])
def test_a_pure_module_imports_only_pure_modules(name: str) -> None:
    assert {other for other in own(name) if not pure(other)} == set()


def test_every_pure_folder_exists() -> None:
    assert set(PURE) <= {folder(name) for name in MODULES}
    assert all((TOOLS / name).is_dir() for name in PURE_TOOLS)


@pytest.mark.parametrize("name", CHECKED)
def test_the_gateway_imports_none_of_the_tools(name: str) -> None:
    assert not [other for other in imported(name) if other.startswith("caption_tools")]


def test_a_pure_folder_of_the_tools_knows_nothing_of_the_world() -> None:
    own = tuple(f"caption_tools.{name.replace('/', '.')}." for name in PURE_TOOLS)
    for path in (path for name in PURE_TOOLS for path in (TOOLS / name).glob("*.py")):
        for other in imports(ast.parse(path.read_text("utf-8"))):
            package, _, rest = other.partition(".")
            assert package not in WORLD, path
            assert package != "caption_tools" or f"{other}.".startswith(own), path
            assert package != "gateway" or not rest or pure(rest), path


def test_the_tools_do_not_import_each_other_in_a_circle() -> None:
    arrows: dict[str, set[str]] = {}
    for path in TOOLS.rglob("*.py"):
        tool = path.relative_to(TOOLS).parts[0]
        for other in imports(ast.parse(path.read_text("utf-8"))):
            package, *inside = other.split(".")
            if package == "caption_tools" and inside and inside[0] != tool:
                arrows.setdefault(tool, set()).add(inside[0])
    list(graphlib.TopologicalSorter(arrows).static_order())  # raises CycleError


def imports(module: ast.Module) -> Iterator[str]:
    """Yield the names of the modules that a module imports, in whichever function."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("name", [name for name in MODULES if top(name) == "server"])
def test_the_server_knows_engines_by_their_contract_only(name: str) -> None:
    known = {folder(other) for other in own(name) if top(other) == "engines"}
    builders = {"server.build", "server.process.serve"}
    contracts = ("engines/base", "engines/profiles", "engines/recognition")
    allowed = {*contracts, *(["engines"] if name in builders else [])}
    assert known <= allowed


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


def test_no_class_name_is_defined_twice() -> None:
    places: dict[str, list[str]] = {}
    for name in MODULES:
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(name)
    # The wire protocol keeps its names: `Settings` is an event, and the settings of the process.
    twice = {name for name, modules in places.items() if len(modules) > 1} - {"Settings"}
    assert twice == set()


def test_no_module_is_over_450_lines_and_no_file_of_tests_over_500() -> None:
    lengths = {
        path.relative_to(ROOT.parent).as_posix(): len(path.read_text("utf-8").splitlines())
        for path in FILES
    }
    most = {True: MOST_LINES_OF_TESTS, False: MOST_LINES}
    long = {name: n for name, n in lengths.items() if n > most[name.startswith("tests/")]}
    assert long == {}


def test_no_function_of_the_package_or_the_tests_has_more_than_eight_parameters() -> None:
    many = {
        f"{path.relative_to(ROOT.parent).as_posix()}: {node.name}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and parameters(node.args) > MOST_PARAMETERS
    }
    assert many == MANY_PARAMETERS


def test_no_name_of_a_test_is_over_80_letters() -> None:
    long = {
        node.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and len(node.name) > MOST_LETTERS
    }
    assert long == set()


def parameters(of: ast.arguments) -> int:
    """Return the number of parameters that a caller may pass by name, without ``self``."""
    names = [one.arg for one in (*of.posonlyargs, *of.args, *of.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


OPENERS = re.compile(
    r"(Those|That|What|Who|Whoever|Whatever|Which|It|Its|They|Where|Whether|How|When|Of|So)\b"
)


WRITTEN = (
    "gateway",
    "caption_gateway",
    "clients",
    "benchmarks",
    "examples",
    "fuzz",
    "scripts",
    "tests",
    "tools",
    "training",
)
"""Folders of the repository whose docstrings are checked."""


@pytest.mark.parametrize("folder", WRITTEN)
def test_no_docstring_opens_with_a_pronoun_or_a_relative_clause(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT.parent)}: {text}"
        for path in sorted((ROOT.parent / folder).rglob("*.py"))
        for text in docstrings(ast.parse(path.read_text("utf-8")))
        if OPENERS.match(text)
    ]
    assert found == []


IN_PLACE_OF_A_NOUN = re.compile(r"\b(?:what|whatever|whoever|those)\b", re.IGNORECASE)
FIRST_SENTENCE = re.compile(r".*?(?:[.:](?=\s)|\n\n|$)", re.DOTALL)


@pytest.mark.parametrize("folder", WRITTEN)
def test_the_first_sentence_of_a_docstring_names_things_by_nouns(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT.parent)}: {first[0]}"
        for path in sorted((ROOT.parent / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (first := FIRST_SENTENCE.match(ast.get_docstring(node) or ""))
        and IN_PLACE_OF_A_NOUN.search(first[0])
    ]
    assert found == []


PARAMETER = re.compile(r":param \w+: (?:of|that)\b.*", re.IGNORECASE)


@pytest.mark.parametrize("folder", WRITTEN)
def test_the_text_of_a_parameter_begins_with_a_noun(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT.parent)}: {text}"
        for path in sorted((ROOT.parent / folder).rglob("*.py"))
        for docstring in docstrings(ast.parse(path.read_text("utf-8")))
        for text in PARAMETER.findall(docstring)
    ]
    assert found == []


def docstrings(module: ast.Module) -> Iterator[str]:
    """Yield the docstrings of a module, of its classes and functions, and of attributes.

    Those of attributes are texts that stand alone, which Python ignores.
    """
    for node in ast.walk(module):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                yield node.value.value.strip()


def test_docstrings_of_attributes_are_found_beside_those_of_functions() -> None:
    source = 'A = 1\n"""What A is."""\n\n\ndef f():\n    """Return A."""\n    return A\n'
    assert list(docstrings(ast.parse(source))) == ["What A is.", "Return A."]


STARTERS = {
    "io.tasks",  # owns what goes on for as long as its owner lives
    # Tasks that somebody awaits, in the same function or at the end of what they belong to.
    *("cli.chat", "cli.listen", "cli.say"),
    *("client.reconnect", "engines.base.engine"),
    *("engines.recognition.openai", "engines.recognition.wrappers"),
    *("engines.scripted", "engines.vllm.model"),
    *("engines.wrappers.routed", "engines.wrappers.supervised", "server.access.jwt_verification"),
    *("server.fleet.connection", "server.process.serve", "server.routes.api"),
    *("server.routes.transcripts", "server.routes.websocket"),
    *("server.runtime.fleet", "server.runtime.recognition"),
    *("storage.sqlite.file", "storage.sqlite.store"),
}
"""Modules that start tasks. A new one has to say who notices the death of its tasks."""


def test_tasks_are_started_only_where_somebody_notices_their_death() -> None:
    found = {
        name
        for name in MODULES
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Attribute) and node.attr in ("create_task", "ensure_future")
    }
    assert found == STARTERS
