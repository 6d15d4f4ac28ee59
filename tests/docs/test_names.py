"""Files, modules, classes and tests that the pages name exist."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, name

CURRENT = [page for page in PAGES if page.name != "CHANGELOG.md"]
"""The pages that describe the code as it is. The changelog names what older versions had."""

FOLDERS = (
    "benchmarks|caption_gateway|clients|deploy|docs|fuzz|gateway|requirements|scripts|tests|tools|training"
    "|web_demo"
)
FILE = re.compile(rf"(?<![\w/.:-])(?:{FOLDERS})/[\w.@/-]*[\w/]")
MODULE = re.compile(r"`((?:caption_gateway|gateway|benchmarks|training|fuzz|tests)(?:\.\w+)+)`")
COMMAND = re.compile(r"python -m ((?:gateway|benchmarks|training|fuzz|tests)[\w.]*)")
CLASS = re.compile(r"`_?([A-Z][a-z]+[A-Z]\w*)(?:\.(\w+))?(?:\([^`]*\))?`")
TEST = re.compile(r"`(test_\w+)`")
FOREIGN = {
    *("AsyncLLM", "AsyncLLMEngine", "CompletionOutput", "OutputProcessor", "RequestOutput"),  # vLLM
    *("ExecReload", "KillMode", "LimitNOFILE", "StateDirectory", "TimeoutStopSec"),  # systemd
    *("EventSource", "WebSocket"),  # browsers, Starlette
    *("JoinableQueue", "LlamaForCausalLM"),  # multiprocessing, Hugging Face
}
"""Names that belong to other projects."""


def classes() -> dict[str, set[str]]:
    """Map every class of the project to the names that its body and methods define."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in ("gateway", "tools", "benchmarks", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found[node.name] |= {
                        getattr(one, kind)
                        for one in ast.walk(node)
                        for kind in ("name", "attr", "id")
                        if isinstance(getattr(one, kind, None), str)
                    }
    for path in (ROOT / "clients").rglob("*.js"):
        for exported in re.findall(r"^export class (\w+)", path.read_text("utf-8"), re.MULTILINE):
            found[exported] = set()
    return found


CLASSES = classes()


@pytest.mark.parametrize("page", CURRENT, ids=name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    for path in FILE.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), f"{name(page)} names {path}"


@pytest.mark.parametrize("page", CURRENT, ids=name)
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for dotted in {*MODULE.findall(text), *(one.rstrip(".") for one in COMMAND.findall(text))}:
        if Path(ROOT, dotted.replace(".", "/")).is_dir():
            continue
        module, _, attribute = dotted.rpartition(".")
        path = Path(ROOT, dotted.replace(".", "/")).with_suffix(".py")
        if not path.exists():
            found = importlib.import_module(module)
            assert hasattr(found, attribute), f"{name(page)} names {dotted}"


@pytest.mark.parametrize("page", CURRENT, ids=name)
def test_every_class_and_method_that_a_page_names_exists(page: Path) -> None:
    for owner, member in CLASS.findall(page.read_text(encoding="utf-8")):
        if owner in FOREIGN or hasattr(builtins, owner):
            continue
        assert owner in CLASSES or f"_{owner}" in CLASSES, f"{name(page)} names {owner}"
        assert not member or member in CLASSES[owner], f"{name(page)} names {owner}.{member}"


def test_every_test_that_a_page_names_exists() -> None:
    named = {test: name(page) for page in CURRENT for test in TEST.findall(page.read_text("utf-8"))}
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for test, page in named.items():
        assert f"def {test}(" in tests, f"{page} names {test}"
