"""``python -m benchmarks.soak``: its flags, and where its report goes.

Owns: the flags and the files of the command. Must not know: how a gateway is loaded or broken.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks import command
from benchmarks.soak import report
from benchmarks.soak.run import Plan, Soak
from gateway.cli.flags import count, positive, seconds, share

TEXT = "Load a gateway of its own, break what can break, and count."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    return command.main("benchmarks.soak", TEXT, add, run, argv)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--seconds", type=positive, default=60.0, help="default: 60")
    parser.add_argument("--hours", type=positive, help="simulated ones, instead of --seconds")
    parser.add_argument("--speed", type=positive, default=1.0,
                        help="simulated seconds a second; default: 1")  # fmt: skip
    parser.add_argument("--sessions", type=count, default=200, metavar="N", help="default: 200")
    parser.add_argument("--rooms", type=count, default=8, metavar="N", help="default: 8")
    parser.add_argument("--cut", type=seconds, default=20.0, metavar="SECONDS",
                        help="between two faults of one network; default: 20; 0: none")  # fmt: skip
    parser.add_argument("--stay", type=seconds, default=60.0, metavar="SECONDS",
                        help="of a reader; then another comes; default: 60; 0: all")  # fmt: skip
    parser.add_argument("--kill", type=seconds, default=20.0, metavar="SECONDS",
                        help="between two ends of the gateway, by signal 9 and 15 in turn; "
                        "default: 20; 0: none")  # fmt: skip
    parser.add_argument("--faults", type=share, default=0.01, metavar="SHARE",
                        help="of the translations that fail; default: 0.01")  # fmt: skip
    parser.add_argument("--gateways", type=count, default=1, metavar="N",
                        help="on one port; more than one need --redis; default: 1")  # fmt: skip
    parser.add_argument("--redis", metavar="URL", help="of a running Redis, instead of a store")
    parser.add_argument("--seed", type=int, default=0, help="of chance; default: 0")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--keep", metavar="FILE", help="the gateway's log, if a promise was broken")
    parser.add_argument("flags", nargs="*", metavar="-- FLAG",
                        help="more flags of gateway serve, after --")  # fmt: skip


def run(args: argparse.Namespace, out: command.Line, tell: command.Line) -> int:
    """Load a gateway, inject faults, and print which of its promises held.

    Return 1 if one was broken.
    """
    if args.gateways > 1 and args.redis is None:
        raise ValueError("--gateways needs --redis: several gateways share their rooms there.")
    plan = Plan(
        seconds=args.seconds if args.hours is None else args.hours * 3600 / args.speed,
        sessions=args.sessions,
        rooms=args.rooms,
        speed=args.speed,
        cut=args.cut,
        stay=args.stay,
        kill=args.kill,
        faults=args.faults,
        seed=args.seed,
        gateways=args.gateways,
        redis=args.redis,
        flags=tuple(args.flags),
    )
    logging.basicConfig(level=logging.ERROR)
    logging.getLogger("websockets").setLevel(logging.CRITICAL)  # broken wires are what it is about
    with tempfile.TemporaryDirectory(prefix="gateway-soak-") as folder:
        made = asyncio.run(Soak(plan, Path(folder)).run())
        out(report.table(made))
        if made.broken and args.keep:
            shutil.copy(Path(folder) / "gateway.log", args.keep)
    if args.json:
        Path(args.json).write_bytes(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
    return 1 if made.broken else 0
