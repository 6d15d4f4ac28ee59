"""The package `caption_gateway`: its names are complete, light to import, and clash with none."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import caption_gateway
import gateway.client

ROOT = Path(caption_gateway.__file__).parents[1]
MODULES = (
    "caption_gateway",
    *(f"caption_gateway.{m}" for m in ("engines", "messages", "testing", "transcripts")),
)


def run(code: str, *, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, which is the first on its path."""
    path = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]\n"
    return subprocess.run(
        [sys.executable, "-I", "-c", path + code], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_exists_and_is_documented(name: str) -> None:
    module = importlib.import_module(name)
    for public in module.__all__:
        found = getattr(module, public)
        if isinstance(found, type):
            assert found.__doc__, f"{name}.{public}"


def test_type_checkers_are_told_the_same_names_as_python_finds() -> None:
    tree = ast.parse(Path(caption_gateway.__file__).read_text(encoding="utf-8"))
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name)  # `if TYPE_CHECKING:`
    )
    told = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            told[alias.asname or alias.name] = (str(node.module), alias.name)
    assert sorted(told) == sorted(caption_gateway.__all__) == dir(caption_gateway)
    for name, (module, original) in told.items():
        assert getattr(caption_gateway, name) is getattr(
            importlib.import_module(module), original
        ), name


def test_all_names_of_the_client_are_public() -> None:
    assert set(gateway.client.__all__) <= set(caption_gateway.__all__)


def test_an_unknown_name_is_an_attribute_error_like_in_any_module() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Conect'"):
        caption_gateway.Conect  # noqa: B018


def test_importing_the_client_loads_no_server_and_no_model() -> None:
    heavy = ("gateway.server", "gateway.core", "gateway.engines", "ctranslate2", "numpy")
    code = (
        "from caption_gateway import Captions, connect\nimport caption_gateway.messages\n"
        f"print([name for name in sys.modules if name.startswith({heavy})])"
    )
    assert run(code).stdout == "[]\n"


@pytest.mark.parametrize("file", ["gateway.py", "gateway/__init__.py"])
def test_another_module_called_gateway_is_named_with_what_to_do(file: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    failed = run("import caption_gateway", folder=tmp_path)
    assert f"{tmp_path / file}. Rename yours." in failed.stderr
    assert "caption-gateway-client" in failed.stderr
