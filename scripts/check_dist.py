"""Checks of the files of `make dist`, as their users install them: in a new environment.

``python scripts/check_dist.py dist build/installed`` installs the wheels of ``dist`` there and
starts a gateway on a free port. It ends with a status other than 0 if the gateway does not answer,
or if the page, the model or a schema is missing. Only dependencies come from the package index.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Sequence
from pathlib import Path

START_S = 120.0
"""Seconds that a gateway may take to start: the first start converts the model."""


def main(argv: Sequence[str]) -> int:
    """Install the wheels, use them, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path, help="folder with the wheels")
    parser.add_argument("environment", type=Path, help="folder for the new environment")
    args = parser.parse_args(argv)
    folder = args.environment.resolve()
    bin = install(sorted(args.dist.glob("*.whl")), folder)
    serve(bin, folder)
    print("The wheels install, and the gateway answers.")
    return 0


def install(wheels: Sequence[Path], environment: Path) -> Path:
    """Install wheels in a new environment, and return the folder of its programs."""
    venv.create(environment, clear=True)
    bin = environment / "bin"
    pip = (sys.executable, "-m", "pip", "--python", bin / "python", "--disable-pip-version-check")
    run(*pip, "install", "-q", *wheels)
    return bin


def serve(bin: Path, folder: Path) -> None:
    """Use the commands and a gateway of an environment. Raises `AssertionError`."""
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
            ask(found[1], bin, folder)
        finally:
            gateway.terminate()


def ask(url: str, bin: Path, folder: Path) -> None:
    """Read a page and make a translation over each package. Raises `AssertionError`."""
    with urllib.request.urlopen(f"{url}/", timeout=START_S) as page:
        assert b"<html" in page.read()
    text = "Thank you very much."
    socket = url.replace("http", "ws")
    command = [bin / "gateway", "say", text, "--from", "en", "--to", "de", "--url", socket]
    said = run(*command, folder=folder)
    assert said.startswith(("Vielen Dank", "Danke")), said
    for package in ("caption_gateway", "caption_gateway_client"):
        program = (
            f"import asyncio\nfrom {package} import connect\n"
            "async def main():\n"
            f"    async with connect({socket!r}, source='en', to=['de']) as client:\n"
            f"        print((await client.caption(await client.say({text!r}), 'de')).text)\n"
            "asyncio.run(main())\n"
        )
        assert run(bin / "python", "-c", program, folder=folder) == said


def run(*command: object, folder: Path | None = None) -> str:
    """Run a program and return its output. Raises `CalledProcessError`."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
