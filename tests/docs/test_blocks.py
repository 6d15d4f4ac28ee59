"""Every block of code and every command on the pages is read by a test, or has a reason not to be.

Commands of `gateway` are parsed in `test_commands.py`, programs with an event loop run in
`test_programs.py`, and `make dist` runs every install of this project.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from starlette.routing import compile_path

from gateway.server.app import HTTP_ROUTES
from tests.docs.pages import PAGES, ROOT, name

FENCED = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```$", re.M | re.S)
SHELL = ("", "bash", "sh")
SOCKETS = ("/v1/ws", "/v1/realtime", "/v1/realtime/translations")
UNTRIED = {
    **dict.fromkeys(("docker",), "needs a daemon; tests/deploy checks the files that it reads"),
    **dict.fromkeys(("kubectl", "helm"), "needs a cluster; tests/deploy renders the chart"),
    **dict.fromkeys(
        ("systemctl", "useradd", "su", "chown"),
        "changes the machine; tests/deploy has systemd check the units",
    ),
    **dict.fromkeys(
        ("cat", "cd", "chmod", "cp", "export", "install", "kill", "ln", "mkdir", "mv", "tar"),
        "belongs to every system; files of this project that it names are looked up",
    ),
    **dict.fromkeys(("printf", "echo", ".", "options"), "belongs to the shell"),
    **dict.fromkeys(("vllm", "vllm-router"), "needs a GPU"),
    "ffmpeg": "needs a microphone or a stream; tests/end_to_end/test_speech.py reads a file by it",
    "haproxy": "tests/deploy/test_haproxy.py starts it with the file",
    "redis-server": "tests/support/redis.py starts it",
    "promtool": "tests/deploy/test_prometheus.py runs it on the rules",
    "pip": "test_installs.py, and `make dist` installs what is this project's",
    "python3": "makes a virtual environment",
    "git": "needs a repository at an address",
}
"""Programs whose commands are not run by a test, with the reason."""
OPTION = re.compile(r"^[a-z][\w-]* (?:\S+ )*--?[a-z]")
"""Lines that look like a command: a word in small letters, and an option behind it."""
PROSE = re.compile(r"^(?:or|id|at|is|a|the|to|of) ")


def lines(page: Path) -> Iterator[str]:
    """Yield every line of a block of shell, fenced or indented, with continuations joined."""
    text = page.read_text(encoding="utf-8")
    for block in FENCED.finditer(text):
        if block[2] in SHELL:
            yield from map(str.strip, block[3].replace("\\\n", " ").splitlines())
    rest = FENCED.sub("", text).replace("\\\n", " ")
    yield from (line.strip() for line in re.findall(r"^ {4,}\S.*$", rest, re.M))


def words(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line, without variables before them."""
    if "│" in line:
        return  # a drawing
    try:
        parts = shlex.split(line, comments=True)
    except ValueError:
        return  # an answer
    command: list[str] = []
    for part in (*parts, "|"):
        if part in ("|", "&&", ";", "&"):
            while command and re.fullmatch(r"[A-Z_]+=.*", command[0]):
                command.pop(0)
            if command:
                yield [command[0].rpartition("/")[2] or command[0], *command[1:]]
            command = []
        else:
            command.append(part)


def _python(arguments: list[str]) -> None:
    """Check that a module or a file exists, and that it knows the options."""
    if arguments[0] == "-m" and not arguments[1].startswith(("benchmarks", "tests", "training")):
        return  # of another project
    if arguments[0] == "-m":
        found = importlib.util.find_spec(arguments[1])
        assert found is not None and found.origin is not None
        # The options of a benchmark may stand in any module of its folder.
        folder = Path(found.origin).parent
        files, rest = [*folder.rglob("*.py")], arguments[2:]
        files += (ROOT / "benchmarks").glob("*.py")
    else:
        files = [*ROOT.rglob(f"examples/**/{arguments[0]}"), *ROOT.glob(arguments[0])]
        assert files or arguments[0] in ("speak.py", "listen.py", "-c"), arguments[0]
        rest = []
    source = "".join(file.read_text("utf-8") for file in files if file.suffix == ".py")
    for option in rest:
        if option.startswith("--"):
            flag = re.split("[= ]", option)[0]
            assert flag in source or flag[2:].replace("-", "_") in source, flag


def _make(arguments: list[str]) -> None:
    targets = re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert [one for one in arguments if "=" not in one][0] in targets


def _curl(arguments: list[str]) -> None:
    """Check that a route answers the address, and that a body is JSON."""
    for before, argument in zip(("", *arguments), arguments, strict=False):
        if before == "-d":
            assert not argument.startswith("{") or json.loads(argument)
        elif re.match(r"(?:https?://)?[\w.-]+(?::\d+)?/", argument) and before != "-o":
            path = urlsplit(argument if "//" in argument else f"http://{argument}").path
            known = any(compile_path(route.path)[0].match(path) for route in HTTP_ROUTES)
            assert known or path in ("/", "/join.html", *SOCKETS), path


def _wscat(arguments: list[str]) -> None:
    address = next(one for one in arguments if one.startswith(("ws:", "wss:")))
    assert urlsplit(address).path in SOCKETS


def _npx(arguments: list[str]) -> None:
    assert arguments[0] == "wscat"
    _wscat(arguments[1:])


TRIED: dict[str, Callable[[list[str]], object]] = {
    "curl": _curl,
    "gateway": lambda arguments: None,  # by `test_commands.py`
    "make": _make,
    "npx": _npx,
    "python": _python,
    "wscat": _wscat,
}
COMMANDS = sorted(
    {
        (name(page), shlex.join(command))
        for page in PAGES
        for line in lines(page)
        for command in words(line)
        if command[0] in TRIED
    }
)


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_of_a_page_names_what_there_is(page: str, command: str) -> None:
    program, *arguments = shlex.split(command)
    TRIED[program](arguments)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_program_on_a_page_is_tried_or_has_a_reason(page: Path) -> None:
    strange = {
        line
        for line in lines(page)
        if OPTION.match(line) and not PROSE.match(line)
        for command in list(words(line))[:1]
        if command[0] not in TRIED and command[0] not in UNTRIED
    }
    assert not strange


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_file_of_this_project_that_a_command_names_exists(page: Path) -> None:
    for line in lines(page):
        for command in words(line):
            for word in command[1:] if command[0] in TRIED or command[0] in UNTRIED else ():
                if word.startswith(("deploy/", "examples/", "benchmarks/", "tests/")):
                    assert [*ROOT.glob(word.rstrip("/"))], word


def _javascript(code: str) -> None:
    if node := shutil.which("node"):
        subprocess.run([node, "--input-type=module", "--check"], input=code.encode(), check=True)


def _plain_python(code: str) -> None:
    compile(code, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


READ: dict[str, Callable[[str], object]] = {
    "python": _plain_python,
    "toml": tomllib.loads,
    "json": json.loads,
    "yaml": lambda code: list(yaml.safe_load_all(code)),
    "js": _javascript,
}
UNREAD = {
    "": "a command, its output, or a drawing",
    "bash": "commands",
    "sh": "commands",
    "text": "output",
    "html": "a part of a page that tests/browser opens",
    "nginx": "tests/deploy/test_nginx.py starts the file that it is a part of",
}
"""Languages of blocks that are not parsed, with the reason."""
BLOCKS = [
    pytest.param(block[2], re.sub(f"^{block[1]}", "", block[3], flags=re.M), id=f"{name(page)}:{n}")
    for page in PAGES
    for n, block in enumerate(FENCED.finditer(page.read_text("utf-8")))
    if block[2] in READ
]


@pytest.mark.parametrize(("language", "code"), BLOCKS)
def test_a_block_of_code_can_be_parsed(language: str, code: str) -> None:
    READ[language](code)


def test_every_language_of_a_block_is_read_or_has_a_reason() -> None:
    used = {block[2] for page in PAGES for block in FENCED.finditer(page.read_text("utf-8"))}
    assert used <= READ.keys() | UNREAD.keys()
