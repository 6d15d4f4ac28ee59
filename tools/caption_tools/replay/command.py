"""The command ``gateway replay``: its flags and its files.

Owns: the command line and the output files. Must not know: how a meeting is played or measured.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from caption_tools.console import views, write_json
from caption_tools.replay import play, report
from caption_tools.replay.meeting import script
from caption_tools.replay.play import Player
from gateway.cli.flags import add_url, check_outputs, count, positive, tags
from gateway.cli.terminal import Screen, api_key, complain, note
from gateway.settings.catalogue import SettingsError
from gateway.text import languages


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    langs: dict[str, Any] = {"type": tags, "default": (), "metavar": "LANG[,LANG]"}
    file = "meeting as JSON lines or as columns; see docs/reference/replay.md"
    add("file", metavar="FILE", help=file)
    add_url(parser)
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


def run(args: argparse.Namespace) -> int:
    """Play a meeting, print the figures of its readers, and return the exit status.

    If the gateway is lost on the way, the figures so far are printed.

    Raises `OSError`, `ValueError` and `SettingsError` for unusable files and languages.
    """
    check_outputs((args.json,))
    whole = play.load(Path(args.file), seed=args.seed, langs=args.columns, source=args.source)
    said = script.faster(whole[: args.limit], args.speed)
    to = args.to or tuple(
        dict.fromkeys(lang for utterance in said for lang in utterance.references)
    )
    if not to:
        raise SettingsError(f"{args.file} names no languages to read. Name some, e.g. --to de,fr.")
    to = tuple(languages.normalise(tag) for tag in to)
    shown = {"room": args.room, "screen": Screen(sys.stdout)}
    player = Player(args.url, said, to=to, views=args.view, key=api_key(), **shown)

    async def perform() -> None:
        await player.play()
        if args.offline:
            note("Translating the final texts alone, to compare ...")
            await player.compare()

    status = 0
    try:
        asyncio.run(perform())
    except KeyboardInterrupt:
        status = 130
    except OSError as exc:
        if not player.begun:
            raise
        complain(str(exc))
        status = 1
    made = report.made(player)
    print(report.table(made))
    if args.json:
        write_json(args.json, made)
    return status
