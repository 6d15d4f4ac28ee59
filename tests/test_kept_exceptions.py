"""No function keeps an exception in a variable of a frame that the exception refers to.

An exception refers to its traceback, and so to each frame that it has passed and to the variables
there. One of these that refers back is a cycle, with all that the frame holds. Python deletes the
name of ``except ... as``, but no other one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "gateway"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def names(target: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}


def own(function: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function without the functions in it."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def is_exception(value: ast.expr | None, caught: set[str]) -> bool:
    """Tell whether a value is a caught exception, or a copy with its traceback."""
    match value:
        case ast.Name(id=id):
            return id in caught
        case ast.Tuple(elts=parts):
            return any(is_exception(part, caught) for part in parts)
        case ast.Call(func=ast.Name(id="redacted"), args=[argument]):
            return is_exception(argument, caught)
    return False


def kept(function: Function) -> set[str]:
    """Return the variables of a function that keep an exception which has passed it."""
    nodes = list(own(function))
    caught = {one.name for one in nodes if isinstance(one, ast.ExceptHandler) and one.name}
    deleted = {
        name for one in nodes if isinstance(one, ast.Delete) for part in one.targets
        for name in names(part)
    }  # fmt: skip
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
            if node.exc.id.islower():  # else it is a class
                found.add(node.exc.id)
        elif isinstance(node, ast.Assign) and is_exception(node.value, caught):
            found |= {one.id for one in node.targets if isinstance(one, ast.Name)}
            found |= {n for one in node.targets if isinstance(one, ast.Tuple) for n in names(one)}
        elif isinstance(node, ast.NamedExpr) and is_exception(node.value, caught):
            found.add(node.target.id)
    return found - caught - deleted


FOLDERS = sorted(one.name for one in ROOT.iterdir() if one.is_dir() and one.name != "cli")
"""Folders of what runs for long. A command ends with its first fault."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_variable_keeps_an_exception_that_has_passed_its_function(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, Function):
                assert not kept(node), f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
