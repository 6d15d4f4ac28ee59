"""``python -m benchmarks.journey``: its flags, and the way from them to a report.

Owns: the flags, their defaults, the files that are written. Must not know: how a cell is made.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import command
from benchmarks.journey import texts
from benchmarks.journey.plan import ARCHITECTURES, Plan, invented
from caption_tools.console import columns
from caption_tools.speech import text
from gateway.cli import flags
from gateway.engines.base.tokenizer import FILE, Vocabulary
from gateway.engines.registry import EMBEDDED
from gateway.settings.catalogue import SettingsError

TEXT = "The architectures that led to this gateway, measured side by side."
CLIENTS = {"embedded": (1, 5, 10, 25), "vllm": (1, 5, 10, 25, 50)}
QUICK_CLIENTS = (1, 25)
RATES = (0.8, 3.0)
MOST_RATE = 10_000.0
"""Requests a second of an open loop, or times those of (a), at most."""
OWN = ("--host", "--port")
"""Flags of (f) that the journey sets itself."""
BUSY = 0.3
"""Load of each CPU above which a machine is not idle, and the results are in doubt."""
PACKAGES = ("vllm", "torch", "ctranslate2", "starlette", "uvicorn", "websockets")
EPILOG = "The architectures: %s. More flags of gateway serve, for (f), go after --."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    return command.main("benchmarks.journey", TEXT, add, run, argv)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    told = ", ".join(f"({letter}) {name}" for letter, name in ARCHITECTURES.items())
    parser.epilog = EPILOG % told
    parser.add_argument("--backend", choices=("embedded", "vllm"), default="embedded",
                        help="CTranslate2 on the CPU, or vLLM; default: %(default)s")  # fmt: skip
    parser.add_argument("--model", metavar="DIR", help="default: the one inside the package")
    parser.add_argument(
        "--profile", metavar="NAME", help="how it is prompted; default: by its name"
    )
    parser.add_argument("--architectures", type=_letters, default=tuple(ARCHITECTURES),
                        metavar="a,b,...", help="default: all")  # fmt: skip
    parser.add_argument("--loads", type=_loads, default=texts.LOADS, metavar="LOAD[,LOAD]",
                        help="uniform, variable; default: both")  # fmt: skip
    parser.add_argument("--clients", type=_counts, metavar="N[,N]",
                        help="requests at once; default: 1,5,10,25 and, on a GPU, 50")  # fmt: skip
    parser.add_argument("--rates", type=_numbers, metavar="X[,X]",
                        help="open loop: times that of (a); 0: none; default: 0.8,3")  # fmt: skip
    parser.add_argument("--per-second", action="store_true",
                        help="the rates are requests a second")  # fmt: skip
    parser.add_argument("--arrivals", choices=("poisson", "fixed"), default="poisson",
                        help="of the open loop; default: %(default)s")  # fmt: skip
    parser.add_argument("--seconds", type=flags.positive, metavar="S",
                        help="of a cell, at least; default: 2")  # fmt: skip
    parser.add_argument("--patience", type=flags.positive, metavar="S",
                        help="that a cell may wait for its slowest; default: 20")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="fewer and shorter cells")
    parser.add_argument("--seed", type=int, default=0, help="of the arrivals; default: 0")
    parser.add_argument("--cpus", type=flags.count, metavar="N",
                        help="threads of the embedded model; default: the CPUs")  # fmt: skip
    parser.add_argument("--load-format", default="auto", metavar="FORMAT",
                        help="vllm: dummy invents the weights, to measure speed")  # fmt: skip
    parser.add_argument("--dtype", default="auto", help="vllm: of the weights")
    parser.add_argument("--max-model-len", type=flags.count, metavar="N",
                        help="vllm: default: what the profile uses")  # fmt: skip
    parser.add_argument("--gpu-memory", type=flags.share, default=0.85, metavar="SHARE",
                        help="vllm: of the GPU's memory; default: 0.85")  # fmt: skip
    parser.add_argument("--vllm-arg", action="append", default=[], metavar="KEY=VALUE",
                        help="vllm: a further engine argument, for all")  # fmt: skip
    parser.add_argument("--join", action="append", default=[], metavar="FILE",
                        help="report with the cells of an earlier --json too")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--logs", metavar="DIR", help="keep what the processes write")
    parser.add_argument("flags", nargs="*", metavar="-- FLAG", help=argparse.SUPPRESS)


def run(args: argparse.Namespace, say: command.Line, tell: command.Line) -> int:
    """Run the benchmark and return the exit status: 1 if an architecture could not be measured.

    :param say: prints a line of the report
    :param tell: prints a line of progress

    Raises `OSError`, `ValueError`, `EngineFault`, `SettingsError`.
    """
    from benchmarks.journey import report
    from benchmarks.journey.run import Found, Run, Timeline

    flags.check_outputs((args.json,))
    _understood(args.flags)
    model = "embedded" if args.model is None else Path(args.model).expanduser().resolve().name
    earlier = [_joined(name, args.backend, model) for name in args.join]
    found = Found()
    for one in earlier:
        found.cells += one.cells
        found.notes += one.notes
        found.starts |= one.starts
    status = 0
    with tempfile.TemporaryDirectory(prefix="gateway-journey-") as folder:
        logs = Path(args.logs or folder)
        logs.mkdir(parents=True, exist_ok=True)
        plan = _plan(args, Path(folder))
        count = _counter(Path(plan.model))
        course = Timeline(
            plan,
            args.architectures,
            args.loads,
            args.clients or (QUICK_CLIENTS if args.quick else CLIENTS[args.backend]),
            [r for r in (args.rates or ((3.0,) if args.quick else RATES)) if r > 0],
            absolute=args.per_second,
            arrivals=args.arrivals,
            seconds=args.seconds or (1.0 if args.quick else 2.0),
            patience=args.patience or (8.0 if args.quick else 20.0),
            seed=args.seed,
            flags=tuple(args.flags),
        )
        words = " ".join(text.lines()).split()
        said = {load: texts.texts(load, words, count) for load in args.loads}
        journey = Run(course, said, logs, found, tell)
        if (load := os.getloadavg()[0]) > BUSY * plan.cpus:
            found.notes.append(f"The machine was not idle when it began: its load was {load:.1f}.")
        try:
            asyncio.run(_told(journey.run()))
        except (KeyboardInterrupt, asyncio.CancelledError):
            found.notes.append("It was ended before its time.")
            status = 130
        means = {load: texts.mean(whole, count) for load, whole in said.items()}
    made = report.Report(
        command=shlex.join(["python", "-m", "benchmarks.journey", *sys.argv[1:]]),
        versions={"Python": platform.python_version()} | _versions(),
        backend=args.backend,
        model=model,
        device=found.device or next((one.device for one in earlier), "unknown"),
        cpus=plan.cpus,
        tokens={load: mean for one in earlier for load, mean in one.tokens.items()} | means,
        starts=found.starts,
        notes=tuple(found.notes),
        cells=tuple(found.cells),
    )
    say(report.text(made, columns(sys.stdout)))
    if args.json:
        Path(args.json).write_bytes(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
    measured = {one.architecture for one in found.cells}
    return status or int(not measured.issuperset(args.architectures))


async def _told(running: Coroutine[Any, Any, None]) -> None:
    """Run, and let SIGTERM end it as Ctrl-C does, so that no engine outlives it."""
    task = asyncio.ensure_future(running)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await task


def _understood(flags: list[str]) -> None:
    """Raise `SettingsError` for flags with which (f) would not start, before anything runs."""
    if not flags:
        return
    for flag in flags:
        if flag.partition("=")[0] in OWN:
            raise SettingsError(f"{flag} is not for (f): it has an address that the journey knows.")
    asked = [sys.executable, "-m", "gateway", "settings", *flags]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    if told.returncode:
        why = told.stderr.partition("\n")[0].removeprefix("gateway: ")
        raise SettingsError(f"{why} What is not a flag of the journey is one of gateway serve.")


def _plan(args: argparse.Namespace, folder: Path) -> Plan:
    if args.backend == "vllm" and args.model is None:
        raise ValueError("The vllm backend needs a model: --model DIR.")
    model = Path(args.model).expanduser() if args.model else EMBEDDED
    if not (model / "config.json").is_file():
        raise FileNotFoundError(f"There is no model in {model}: it has no config.json.")
    profile = args.profile
    if args.load_format == "dummy" and profile is None:
        profile = str(folder / "dummy.toml")
        Path(profile).write_text(invented(), "utf-8")
    return Plan(
        architecture="a",
        backend=args.backend,
        model=str(model),
        profile=profile,
        load_format=args.load_format,
        dtype=args.dtype,
        max_model_len=args.max_model_len,
        share=args.gpu_memory,
        cpus=args.cpus or len(os.sched_getaffinity(0)),
        extra=dict(_entry(one) for one in args.vllm_arg),
    )


def _counter(model: Path) -> Callable[[str], int]:
    return Vocabulary.load(model).count if (model / FILE).is_file() else texts.guess


def _joined(name: str, backend: str, model: str) -> Any:
    """Return the report of an earlier run of the same model. Raises `OSError` and `ValueError`."""
    from benchmarks.journey.report import Report

    wanted = "--join takes a file that benchmarks.journey --json has written."
    try:
        found = msgspec.json.decode(Path(name).read_bytes(), type=Report)
    except OSError as exc:
        raise OSError(f"{name} cannot be read: {exc.strerror}. {wanted}") from exc
    except ValueError as exc:  # msgspec's errors are ValueErrors
        raise ValueError(f"{name} is no such report: {exc}. {wanted}") from exc
    if (found.backend, found.model) != (backend, model):
        raise ValueError(
            f"{name} was measured with the {found.backend} backend and the model {found.model}, and"
            f" now it is {backend} and {model}: they cannot be compared. Leave out --join, or name"
            " the same --backend and --model."
        )
    return found


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _entry(given: str) -> tuple[str, object]:
    key, equals, value = given.partition("=")
    if not key or not equals:
        raise ValueError(f"--vllm-arg cannot be {given!r}: it is KEY=VALUE.")
    try:
        return key, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key, value


def _letters(given: str) -> tuple[str, ...]:
    found = tuple(letter for letter in ARCHITECTURES if letter in given)
    if set(given) - set(ARCHITECTURES) - {","} or not found:
        raise argparse.ArgumentTypeError(f"{given!r} is not made of {', '.join(ARCHITECTURES)}")
    return found


def _loads(given: str) -> tuple[str, ...]:
    found = tuple(load for load in texts.LOADS if load in given.split(","))
    if set(given.split(",")) - set(texts.LOADS):
        raise argparse.ArgumentTypeError(f"{given!r} is not made of {', '.join(texts.LOADS)}")
    return found


def _counts(given: str) -> tuple[int, ...]:
    return tuple(sorted({flags.count(one) for one in given.split(",")}))


def _numbers(given: str) -> tuple[float, ...]:
    found = tuple(flags.seconds(one) for one in given.split(","))
    if max(found) > MOST_RATE:
        raise argparse.ArgumentTypeError(f"more than {MOST_RATE:,.0f} cannot be sent here")
    return found
