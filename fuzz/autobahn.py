"""The Autobahn test-suite against the protocol classes of the gateway: RFC 6455, 247 cases.

    python -m fuzz.autobahn --python2 python2.7

The suite runs on Python 2.7 alone and is installed by its pip into ``build/autobahn``. It needs a
server that echoes, so the protocol classes serve one here. Left out are compression (12, 13), which
the gateway does not offer, and messages of up to 16 MB (9), which it refuses, as it does thousands
of fragments. The exit status is 1 if a case fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import subprocess
import sys
from collections import Counter
from pathlib import Path

import uvicorn
from starlette.types import Receive, Scope, Send

from gateway.limits import Limits
from gateway.server.process.listener import listen
from gateway.server.process.server import configure
from gateway.server.uvicorn.websocket import without_client_mistakes
from gateway.settings.catalogue import Settings

BUILD = Path(__file__).resolve().parent.parent / "build" / "autobahn"
SITE = BUILD / "site"
SUITE = "autobahntestsuite==0.8.2"
LEFT_OUT = ["9.*", "12.*", "13.*"]
START = (
    "import site, sys; place = sys.argv.pop(1); site.addsitedir(place); sys.path.insert(0, place); "
    "from autobahntestsuite.wstest import run; run()"
)
GOOD = {"OK", "INFORMATIONAL", "UNIMPLEMENTED"}
TOLERATED = {"NON-STRICT"}
"""Results that the RFC allows besides the suite's first choice, such as checking whole messages
only.
"""
KNOWN = {"7.1.5": "websockets answers a close inside a fragmented message with 1002, not 1000"}
"""Cases that fail, with the reason."""


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Send back every message, as an ASGI application."""
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        try:
            await send({**message, "type": "websocket.send"})
        except (OSError, RuntimeError):  # it is closing: the suite wants to see that, not this
            return


def install(python: str) -> None:
    """Install the suite if it is missing."""
    BUILD.mkdir(parents=True, exist_ok=True)
    if not SITE.is_dir():
        command = [python, "-m", "pip", "install", "-q", "--target", str(SITE), SUITE]
        subprocess.run(command, check=True)


async def run(python: str) -> int:
    logging.getLogger("uvicorn.error").addFilter(without_client_mistakes)
    listener = listen("127.0.0.1", 0)
    settings = Settings(limits=Limits(frame=1 << 20), ping_s=0)
    server = uvicorn.Server(configure(echo, settings))  # type: ignore[arg-type]
    server.config.lifespan = "off"
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        spec = {
            "servers": [{"agent": "gateway", "url": f"ws://127.0.0.1:{listener.getsockname()[1]}"}],
            "outdir": str(BUILD / "report"),
            "cases": ["*"],
            "exclude-cases": LEFT_OUT,
        }
        (BUILD / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        suite = await asyncio.create_subprocess_exec(
            *(python, "-W", "ignore", "-c", START, str(SITE)),
            *("-m", "fuzzingclient", "-s", str(BUILD / "spec.json")),
            stdout=asyncio.subprocess.DEVNULL,
        )
        await suite.wait()
    finally:
        server.should_exit = True
        await serving
    found = json.loads((BUILD / "report" / "index.json").read_text(encoding="utf-8"))["gateway"]
    counts = Counter(case["behavior"] for case in found.values())
    closes = Counter(case["behaviorClose"] for case in found.values())
    print(f"{len(found)} cases: {dict(counts)}; their closes: {dict(closes)}")
    bad = [
        name
        for name, case in found.items()
        if case["behavior"] not in GOOD | TOLERATED or case["behaviorClose"] not in GOOD
    ]
    for name in bad:
        why = KNOWN.get(name, "not known")
        print(f"{name}: {found[name]['behavior']}, close {found[name]['behaviorClose']} ({why})")
    return 1 if set(bad) - KNOWN.keys() else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.autobahn")
    parser.add_argument("--python2", default="python2.7", help="default: %(default)s")
    python = parser.parse_args().python2
    install(python)
    return asyncio.run(run(python))


if __name__ == "__main__":
    sys.exit(main())
