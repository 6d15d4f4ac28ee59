"""The commands ``gateway replay`` and ``gateway record``.

Owns: the flags and the files of the two commands. Must not know: how a meeting is played or
measured. Modules that only one command needs are imported when it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.cli.console.args import URL, count, positive, tags, views
from gateway.cli.console.files import check_outputs, write_json
from gateway.cli.console.terminal import Screen
from gateway.protocol.messages import Source
from gateway.settings.catalogue import SettingsError
from gateway.text import languages

if TYPE_CHECKING:
    from gateway.cli.replay.meeting.script import ScriptUtterance
    from gateway.cli.replay.play import Player

Line = Callable[[str], object]
"""A function that prints one line."""


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``gateway replay``."""
    add = parser.add_argument
    langs: dict[str, Any] = {"type": tags, "default": (), "metavar": "LANG[,LANG]"}
    file = "meeting as JSON lines or as columns; see docs/reference/replay.md"
    add("file", metavar="FILE", help=file)
    add("--url", default=URL, help="address of the gateway; default: %(default)s")
    add("--room", help="room to play in; default: a new room")
    add("--to", help="languages to read; default: those of the file", **langs)
    seen = "views to read: live, stable, final; default: live,stable"
    add("--view", type=views, default=("live", "stable"), metavar="VIEW[,VIEW]", help=seen)
    add("--columns", help="languages of the file's columns", **langs)
    source = "language of the column that is spoken; default: the first"
    add("--from", dest="source", metavar="LANG", help=source)
    add("--speed", type=positive, default=1.0, help="speed factor; default: 1")
    add("--seed", type=int, default=0, help="seed of the simulated recogniser; default: 0")
    add("--limit", type=count, metavar="N", help="play only the first N utterances")
    offline = "also translate the final texts alone, to compare; default: yes"
    add("--offline", action=argparse.BooleanOptionalAction, default=True, help=offline)
    add("--json", metavar="FILE", help="write all results as JSON")
    add("--simuleval", metavar="DIR", help="write logs for SimulEval and OmniSTEval")
    add("--plot", metavar="FILE.svg", help="draw a timeline of all utterances")


def replay(
    args: argparse.Namespace, *, key: str | None, out: Line, note: Line, complain: Line
) -> int:
    """Play a meeting, print what its readers saw, and return the exit status.

    If the gateway is lost on the way, the figures so far are printed.

    :param note: prints a line of progress
    :param complain: prints a line about a failure

    Raises `OSError`, `ValueError` and `SettingsError` for unusable files and languages.
    """
    from gateway.cli.replay import play, report
    from gateway.cli.replay.analysis import plot
    from gateway.cli.replay.meeting import script

    check_outputs((args.json, args.plot))
    whole = play.load(Path(args.file), seed=args.seed, langs=args.columns, source=args.source)
    said = script.faster(whole[: args.limit], args.speed)
    to = args.to or tuple(dict.fromkeys(lang for one in said for lang in one.references))
    if not to:
        raise SettingsError(f"{args.file} names no languages to read. Name some, e.g. --to de,fr.")
    to = tuple(languages.normalise(tag) for tag in to)
    player = play.Player(
        args.url, said, to=to, views=args.view, room=args.room, screen=Screen(sys.stdout), key=key
    )
    status = 0
    try:
        asyncio.run(_perform(player, args.offline, note))
    except KeyboardInterrupt:
        status = 130
    except OSError as exc:
        if not player.begun:
            raise
        complain(str(exc))
        status = 1
    made = report.made(player)
    out(report.table(made))
    seen = {lang: player.readings(lang, args.view[0]) for lang in to}
    if args.json:
        write_json(args.json, made)
    if args.simuleval:
        report.write_instances(Path(args.simuleval), seen)
    if args.plot:
        Path(args.plot).write_text(plot.svg(seen), "utf-8")
    return status


async def _perform(player: Player, offline: bool, note: Line) -> None:
    await player.play()
    if offline:
        note("Translating the final texts alone, to compare ...")
        await player.compare()


def add_record(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``gateway record``."""
    add = parser.add_argument
    add("room", metavar="ROOM", help="room to record")
    add("file", metavar="FILE", help="file of JSON lines; it must not exist yet")
    add("--url", default=URL, help="address of the gateway; default: %(default)s")
    to = "languages to record; the spoken one records how originals grew"
    add("--to", type=tags, required=True, metavar="LANG[,LANG]", help=to)


def record(args: argparse.Namespace, *, key: str | None, out: Line) -> int:
    """Record a room until Ctrl-C or SIGTERM, and return the exit status. Raises `OSError`."""
    from gateway.cli.replay import record as recording

    path, screen = Path(args.file), Screen(sys.stdout)
    langs = tuple(languages.normalise(tag) for tag in args.to)
    with path.open("xb") as file:

        def write(one: ScriptUtterance) -> None:
            file.write(msgspec.json.encode(one) + b"\n")

        def said(source: Source) -> None:
            screen.finish(f"{source.speaker or 'somebody'}: {source.text}")

        recorder = recording.Recorder(langs, write)
        was = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            asyncio.run(recording.record(args.url, args.room, langs, recorder, said, key))
        except KeyboardInterrupt:
            pass  # Ctrl-C is the usual end of a recording
        finally:
            signal.signal(signal.SIGTERM, was)
            recorder.end()
            if not recorder.written:
                path.unlink()
    if recorder.written:
        what = "utterance" if recorder.written == 1 else "utterances"
        out(f"# {recorder.written} {what} recorded in {path}")
    else:
        out("# Nothing was said, so no file was written.")
    return 0
