"""The search: ``python -m fuzz --seconds 60``, or ``python -m fuzz frames`` without an end.

Every target runs in its own process for its part of the seconds: ``http`` under schemathesis, the
others under atheris (libFuzzer for Python). Their corpus stays in ``build/fuzz/NAME``, so that the
next run goes on from there. An input that breaks a promise is written to
``build/fuzz/NAME-crash-...``, and the exit status is 1. Put the input into ``fuzz/found/NAME`` with
the fix: `tests/fuzz/test_found.py` plays it from then on.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from fuzz import http

TARGETS = ("frames", "stream", "world", "http")
ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
SEEDS = ROOT / "fuzz" / "found"


def search(name: str, seconds: int, seed: int) -> None:
    """Search one target; it does not return."""
    import atheris

    with atheris.instrument_imports(include=["gateway", "uvicorn", "websockets", "fuzz"]):
        one: Callable[[bytes], None] = importlib.import_module(f"fuzz.{name}").one
    corpus = BUILD / name
    corpus.mkdir(parents=True, exist_ok=True)
    (SEEDS / name).mkdir(parents=True, exist_ok=True)
    atheris.Setup(
        [
            f"fuzz {name}",
            f"-max_total_time={seconds}",
            f"-seed={seed}",
            "-max_len=2048",
            "-timeout=60",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            "-verbosity=0",
            f"-artifact_prefix={BUILD}/{name}-",
            str(corpus),
            str(SEEDS / name),
        ],
        one,
    )
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("target", nargs="?", choices=TARGETS, help="only this one")
    parser.add_argument("--seconds", type=int, default=0, help="in all; 0: for ever (one target)")
    parser.add_argument("--seed", type=int, default=0, help="the same search again; 0: another")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside and args.target == "http":
        return http.search(args.seconds or 3600, args.seed)
    if args.inside:
        search(args.target, args.seconds, args.seed)
        raise AssertionError("libFuzzer ends the process")
    targets = TARGETS if args.target is None else (args.target,)
    if args.target is None and args.seconds < len(targets):
        parser.error("all targets, one after the other, need --seconds")
    failed = []
    for name in targets:
        share = args.seconds // len(targets)
        command = [sys.executable, "-m", "fuzz", name, "--inside"]
        command += ["--seconds", str(share), "--seed", str(args.seed)]
        print(f"fuzz {name}: {share or 'unlimited'} s", flush=True)
        # What it asserts must not depend on -O, nor what it finds on a random hash.
        environ = os.environ | {"PYTHONHASHSEED": "0"}
        if subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode != 0:
            failed.append(name)
    for name in failed:
        print(f"fuzz {name}: a promise was broken; see {BUILD}/{name}-*")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
