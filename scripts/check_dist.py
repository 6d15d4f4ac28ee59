"""Checks of the files of `make dist`, as their users install them: in new environments.

``python scripts/check_dist.py dist build/installed`` installs the distributions there by the
commands of the pages and error messages, with ``dist`` as the only source of them, and starts a
gateway on a free port. It ends with a status other than 0 if a command fails, if the gateway does
not answer, or if the page, the model or a schema is missing. Only dependencies come from package
indexes.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START_S = 120.0
"""Seconds that a gateway may take to start: the first start converts the model."""
COMMAND = re.compile(
    r"pip install (?:--upgrade )?('caption-gateway[\w\[\],-]*'|caption-gateway[\w-]*)"
)
"""A command that installs a distribution of this project."""
PROGRAM = """
import { connect } from "caption-gateway-client";
import WebSocket from "ws";

const [url, text] = process.argv.slice(2);
const room = connect(url, {
  from: "en", to: ["de"], room: "node", WebSocket,
  onChange({ utterances }) {
    const caption = utterances.at(-1)?.captions.de;
    if (caption?.status === "final") { console.log(caption.stable); process.exit(); }
  },
});
room.say(text);
"""
"""A program in JavaScript that prints the finished caption of a text."""


def main(argv: Sequence[str]) -> int:
    """Install the wheels, use them, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path, help="folder with the wheels")
    parser.add_argument("environment", type=Path, help="folder for the new environment")
    args = parser.parse_args(argv)
    dist, folder = args.dist.resolve(), args.environment.resolve()
    bin = install(
        dist, folder, "caption-gateway", "caption-gateway-client", "caption-gateway-tools"
    )
    archive = node(sorted(dist.glob("caption-gateway-client-*.tgz"))[-1], folder / "node")
    serve(bin, folder, archive)
    alone = install(dist, folder / "client", "caption-gateway-client")
    run(alone / "python", "-c", "import caption_gateway_client", folder=folder)
    # Each command alone, since another one may have installed what it needs.
    for number, requirement in enumerate(sorted(requirements(ROOT))):
        print(f"pip install '{requirement}'", flush=True)
        # vLLM and PyTorch have several GB: whether their versions fit together is all that is seen.
        dry = ("--dry-run",) if "[vllm]" in requirement else ()
        install(dist, folder / f"command-{number}", requirement, *dry)
        shutil.rmtree(folder / f"command-{number}")
    print("The distributions install, and the gateway answers.")
    return 0


def requirements(root: Path) -> set[str]:
    """Return each distribution with its extras that pages and messages say to install."""
    files = [
        *(root / "gateway").rglob("*.py"),
        *(root / "docs").rglob("*.md"),
        *(root / folder / "README.md" for folder in (".", "tools", "clients/python")),
    ]
    return {
        words.strip("'")
        for file in files
        for words in COMMAND.findall(file.read_text(encoding="utf-8"))
    }


def install(dist: Path, environment: Path, *arguments: str) -> Path:
    """Install distributions in a new environment, and return the folder of its programs."""
    venv.create(environment, clear=True)
    bin = environment / "bin"
    pip = (sys.executable, "-m", "pip", "--python", bin / "python", "--disable-pip-version-check")
    run(*pip, "install", "-q", "--find-links", dist, *arguments)
    return bin


def node(archive: Path, folder: Path) -> Path:
    """Install the archive of the JavaScript client in a new project, and return its program."""
    folder.mkdir()
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    run("npm", "install", "--silent", "--no-audit", "--no-fund", archive, "ws", folder=folder)
    program = folder / "say.js"
    program.write_text(PROGRAM)
    return program


def serve(bin: Path, folder: Path, program: Path) -> None:
    """Use the commands and a gateway of an environment. Raises `AssertionError`.

    :param program: program in JavaScript that prints a caption
    """
    shown = run(bin / "gateway", "--version", folder=folder)
    assert re.match(r"gateway \d+\.\d+\.\d+$", shown), shown
    assert json.loads(run(bin / "gateway", "schema", folder=folder))["$schema"]
    run(bin / "gateway", "doctor", "--port", "0", folder=folder)
    assert "engines" in run(bin / "gateway", "plan", "--engine", "embedded", folder=folder)
    command = [str(bin / "gateway"), "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as gateway:
        try:
            assert gateway.stderr is not None
            for line in gateway.stderr:  # ends with the gateway
                if found := re.search(r"Open +(http://\S+)/", line):
                    break
            else:
                raise AssertionError("The gateway has ended.")
            ask(found[1], bin, folder, program)
        finally:
            gateway.terminate()


def ask(url: str, bin: Path, folder: Path, program: Path) -> None:
    """Read a page and make a translation over each package. Raises `AssertionError`."""
    with urllib.request.urlopen(f"{url}/", timeout=START_S) as page:
        assert b"<html" in page.read()
    text = "Thank you very much."
    socket = url.replace("http", "ws")
    command = [bin / "gateway", "say", text, "--from", "en", "--to", "de", "--url", socket]
    said = run(*command, folder=folder)
    assert said.startswith(("Vielen Dank", "Danke")), said
    assert run("node", program, url, text, folder=program.parent) == said
    for package in ("caption_gateway", "caption_gateway_client"):
        code = (
            f"import asyncio\nfrom {package} import connect\n"
            "async def main():\n"
            f"    async with connect({socket!r}, source='en', to=['de']) as client:\n"
            f"        print((await client.caption(await client.say({text!r}), 'de')).text)\n"
            "asyncio.run(main())\n"
        )
        assert run(bin / "python", "-c", code, folder=folder) == said


def run(*command: object, folder: Path | None = None) -> str:
    """Run a program and return its output. Raises `CalledProcessError`."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
