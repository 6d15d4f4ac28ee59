"""A mutation run: small changes to the code of one folder, each of which its tests must notice.

`make mutation AREA=core/session` runs one folder, `make mutation` all of `AREAS`. mutmut makes the
changes and runs the tests of the same folder in `tests/`, with few examples of hypothesis, in a
copy of the sources in ``build/mutation``. A folder fails under `NEEDED` of its changes noticed.

Changes of the words of an error, a close reason or a log line only, of an ``assert``'s message and
of ``__repr__`` do not count, and are left out of all figures. `words_only` has the rule.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

AREAS = (
    "core/session",
    "core/scheduling",
    "core/room",
    "core/captions",
    "core/utterances",
    "core/recognition",
    "core/replication",
    "core/streaming",
    "core/members",
    "core/delivery",
    "core/history",
    "core/base",
    "auth",
    "text",
    "protocol",
    "server/openai_api",
    "server/realtime",
)
ALSO = {
    # What becomes of captions is seen in a room, so most of their tests are there.
    "core/captions": ("tests/core/room",),
}
"""Further tests of a folder."""
NEEDED = 0.93
"""Share of the changes of a folder that its tests must notice. Up to 5 % of a folder's changes make
no difference that a test could notice."""
WORK = Path("build/mutation")
COPIED = ("clients", "docs", "gateway", "scripts", "tests", "web_demo", "pyproject.toml")

UNNOTICED = (0, 33)
"""Exit codes of mutmut: the tests passed; no test reaches the function."""
MEMORY_BYTES = 4 << 30
"""Bound of a test process: a changed loop may never end, and collect."""

CONFIGURATION = """
[tool.mutmut]
source_paths = ["gateway"]
only_mutate = ["gateway/{area}/*"]
also_copy = {copied}
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = ["-p", "no:cacheprovider"]
timeout_constant = 2.0
timeout_multiplier = 8.0
"""


class Change(NamedTuple):
    """One change: the file, the function, and the lines taken out and put in."""

    place: str
    old: str
    new: str

    def __str__(self) -> str:
        lines = [self.place]
        lines += [f"    - {line}" for line in self.old.splitlines()]
        lines += [f"    + {line}" for line in self.new.splitlines()]
        return "\n".join(lines)


def run(area: str, children: int, *, again: bool = False) -> None:
    """Let mutmut change one folder and run its tests, in a copy of the sources.

    Raises `subprocess.CalledProcessError` if mutmut fails; its output is in ``mutmut.log``.

    :param again: run only the changes that no test noticed last time, with the present tests
    """
    work = WORK / area.replace("/", "-")
    names = [name for name, _, seen in changes(area) if not seen] if again else []
    if again:
        (work / "mutants/mutmut-stats.json").unlink()  # else it keeps which test reaches what
    else:
        shutil.rmtree(work, ignore_errors=True)
    for name in ("tests", "pyproject.toml") if again else COPIED:
        if Path(name).is_dir():
            # The weights of the embedded model are large, and no pure test loads them.
            skip = shutil.ignore_patterns("__pycache__", "*.bin", "*.safetensors")
            shutil.copytree(name, work / name, ignore=skip, dirs_exist_ok=True)
        else:
            shutil.copy2(name, work / name)
    tests = json.dumps([f"tests/{area}", *ALSO.get(area, ())])
    with (work / "pyproject.toml").open("a") as file:
        file.write(CONFIGURATION.format(area=area, tests=tests, copied=json.dumps(COPIED)))
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(children), *names]
    with (work / "mutmut.log").open("w") as output:
        subprocess.run(
            command,
            cwd=work,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"HYPOTHESIS_PROFILE": "mutation"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES,) * 2),
            check=True,
        )


def changes(area: str) -> Iterator[tuple[str, Change, bool]]:
    """Yield mutmut's name, the change and whether it was noticed, for all changes that count."""
    mutants = WORK / area.replace("/", "-") / "mutants"
    for meta in sorted((mutants / "gateway" / area).glob("*.py.meta")):
        source = meta.with_suffix("")
        codes: dict[str, int | None] = json.loads(meta.read_text())["exit_code_by_key"]
        functions = _functions(source) if codes else {}
        for key, code in codes.items():
            name = key.rpartition(".")[2]
            base = name.rpartition("__mutmut_")[0]
            original = functions[f"{base}__mutmut_orig"].replace(f"{base}__mutmut_orig", base, 1)
            changed = functions[name].replace(name, base, 1)
            if base.endswith("__repr__") or words_only(original, changed):
                continue
            if code is None:
                raise SystemExit(f"{area}: {key} was not tested")
            title = base.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
            place = f"{source.relative_to(mutants)}: {title}"
            yield key, Change(place, *difference(original, changed)), code not in UNNOTICED


def _functions(source: Path) -> dict[str, str]:
    """Return the functions that mutmut wrote to a file, changed and as they were, by name."""
    spans: dict[str, list[int]] = json.loads(Path(f"{source}.spans").read_text())["spans"]
    lines = source.read_text().splitlines()
    return {
        name: textwrap.dedent("\n".join(lines[first - 1 : last]))
        for name, (first, last) in spans.items()
    }


def difference(old: str, new: str) -> tuple[str, str]:
    """Return the lines of two texts that differ, without indentation."""
    diff = list(difflib.ndiff(old.splitlines(), new.splitlines()))
    gone = [line[2:].strip() for line in diff if line.startswith("- ")]
    come = [line[2:].strip() for line in diff if line.startswith("+ ")]
    return "\n".join(gone), "\n".join(come)


# --- changes of words -----------------------------------------------------------------------------

_PROSE = re.compile(r"[a-z,;:.] +\S|\S +[a-z(]", re.IGNORECASE)


def words_only(old: str, new: str) -> bool:
    """Return whether two versions of a function differ in words that people read, and only there.

    Such words are strings with several words, and all strings of a ``raise``. In a call they may be
    left out or replaced by None too. Messages of ``assert`` and calls of ``log`` are words
    altogether.
    """
    before = _Wordless()
    plain = before.visit(ast.parse(old))
    after = _Wordless(before.speaking)
    return ast.dump(plain) == ast.dump(after.visit(ast.parse(new)))


class _Wordless(ast.NodeTransformer):
    """A tree without the words that people read.

    ``speaking`` has the called functions that were given such words.
    """

    def __init__(self, speaking: frozenset[str] = frozenset()) -> None:
        self.speaking = speaking
        self._raising = False

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self._raising = True
        self.generic_visit(node)
        self._raising = False
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.msg = None
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        call = node.value
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("log."):
            return ast.Pass()
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("words") if self._words(node) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        name = ast.dump(node.func)
        if any(map(self._words, values)):
            self.speaking |= {name}
        if name in self.speaking:
            node.args = [value for value in node.args if not self._silent(value)]
            node.keywords = [k for k in node.keywords if not self._silent(k.value)]
        return self.generic_visit(node)

    def _words(self, value: ast.AST) -> bool:
        if isinstance(value, ast.IfExp):
            return self._words(value.body) and self._words(value.orelse)
        if isinstance(value, ast.BinOp):
            return self._words(value.left) or self._words(value.right)
        if isinstance(value, ast.JoinedStr):
            return self._raising or any(map(self._words, value.values))
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return self._raising or bool(_PROSE.search(value.value))
        return False

    def _silent(self, value: ast.AST) -> bool:
        none = isinstance(value, ast.Constant) and value.value is None
        return none or self._words(value)


# --- figures --------------------------------------------------------------------------------------


def report(area: str) -> bool:
    """Print the figures of one folder and the changes unnoticed. Return whether enough are not."""
    noticed: set[Change] = set()
    unnoticed: set[Change] = set()
    for _, change, seen in changes(area):
        (noticed if seen else unnoticed).add(change)
    # The same line can stand twice in a function: it is noticed if both its changes are.
    noticed -= unnoticed
    total = len(noticed) + len(unnoticed)
    share = len(noticed) / total if total else 1.0
    for change in sorted(unnoticed):
        print(change, end="\n\n")
    print(f"{area}: {total} changes, {len(noticed)} noticed ({share:.1%})", flush=True)
    return share >= NEEDED


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("areas", nargs="*", metavar="FOLDER", help="folders of gateway/")
    parser.add_argument("--children", type=int, default=os.cpu_count(), help="test processes")
    parser.add_argument("--again", action="store_true", help="only changes unnoticed last time")
    given = parser.parse_args(arguments)
    good = True
    for area in given.areas or AREAS:
        run(area, given.children, again=given.again)
        good = report(area) and good
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
