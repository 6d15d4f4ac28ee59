"""The command ``gateway record``: a live room in a file that can be replayed.

Owns: the flags, the socket of a recording, and what of the room goes into the file.

Times are those of arrival. The captions in the spoken language that a reader was shown while an
utterance grew become its updates. An utterance that is retracted before it is written is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from caption_tools.replay.analysis.screen import ScreenRecorder
from caption_tools.replay.meeting.script import RecogniserUpdate, ScriptUtterance
from caption_tools.replay.play import offered
from gateway.cli.flags import add_url, tags
from gateway.cli.terminal import Screen, api_key
from gateway.client import connect
from gateway.protocol.messages import Cancelled, Edited, Retracted, ServerMessage, Source
from gateway.text import languages

KEPT = 1000  # utterances that may still change before they are written; a room remembers as many


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add("room", metavar="ROOM", help="room to record")
    add("file", metavar="FILE", help="file of JSON lines; it must not exist yet")
    add_url(parser)
    to = "languages to record; the spoken one records how originals grew"
    add("--to", type=tags, required=True, metavar="LANG[,LANG]", help=to)


def run(args: argparse.Namespace) -> int:
    """Record a room until Ctrl-C or SIGTERM, and return the exit status. Raises `OSError`."""
    path = Path(args.file)
    langs = tuple(languages.normalise(tag) for tag in args.to)
    with path.open("xb") as file:
        recorder = Recorder(
            langs, lambda utterance: file.write(msgspec.json.encode(utterance) + b"\n")
        )
        was = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            asyncio.run(record(args.url, args.room, langs, recorder, Screen(sys.stdout), api_key()))
        except KeyboardInterrupt:
            pass  # Ctrl-C is the usual end of a recording
        finally:
            signal.signal(signal.SIGTERM, was)
            recorder.end()
            if not recorder.written:
                path.unlink()
    if recorder.written:
        what = "utterance" if recorder.written == 1 else "utterances"
        print(f"# {recorder.written} {what} recorded in {path}")
    else:
        print("# Nothing was said, so no file was written.")
    return 0


class Recorder:
    """A recorder of a room that gives utterances to ``write`` when they cannot change any more."""

    def __init__(
        self, langs: Sequence[str], write: Callable[[ScriptUtterance], object], *, kept: int = KEPT
    ) -> None:
        self.written = 0
        self._watch = ScreenRecorder(langs)
        self._write = write
        self._kept = kept
        self._came: dict[str, float] = {}

    def note(self, event: ServerMessage, at: float) -> None:
        """Handle an event that came ``at`` seconds after the recording began."""
        at = round(at, 3)
        self._watch.note(event, at)
        match event:
            case Source():
                self._came[event.id] = at
                # The oldest can hardly change any more, and memory stays bounded.
                if len(self._came) > self._kept:
                    self._put(next(iter(self._came)))
            case Edited() if event.id in self._came:
                self._edit(event, at)
            case Retracted():
                self._came.pop(event.id, None)
                self._watch.forget(event.id)
            case Cancelled(lang=None) if event.id not in self._came:
                self._watch.forget(event.id)  # it was cancelled before its end
            case _:
                pass

    def end(self) -> None:
        """Write the utterances that are left."""
        for id in list(self._came):
            self._put(id)

    def _edit(self, event: Edited, at: float) -> None:
        source = self._watch.sources[event.id]
        # A correction in the spoken language replaces the original.
        if languages.same(event.lang, source.lang):
            self._watch.sources[event.id] = msgspec.structs.replace(source, text=event.text)
        else:
            self._watch.correct(event.id, event.lang, event.text, at)

    def _put(self, id: str) -> None:
        source, end = self._watch.sources[id], self._came.pop(id)
        updates: list[RecogniserUpdate] = []
        shown = {}
        for lang in self._watch.langs:
            history = self._watch.history(id, lang)
            if not languages.same(lang, source.lang):
                if history:
                    shown[lang] = history
                continue
            updates += [
                RecogniserUpdate(shown.at, shown.text)
                for shown in history
                if shown.at <= end and not shown.ended and shown.text.strip()
            ]
        # The beginning is not in the protocol: the earliest trace of the utterance stands for it.
        begin = updates[0].at if updates else end
        for history in shown.values():
            begin = min(begin, history[0].at)
        self._watch.forget(id)
        self._write(
            ScriptUtterance(
                id=id,
                lang=source.lang,
                text=source.text,
                t0=begin,
                t1=end,
                updates=tuple(updates),
                speaker=source.speaker,
                shown=shown,
            )
        )
        self.written += 1


async def record(
    url: str,
    room: str,
    langs: Sequence[str],
    recorder: Recorder,
    screen: Screen | None = None,
    key: str | None = None,
) -> None:
    """Read a room from now until its gateway ends it or this is cancelled.

    Earlier utterances have no times any more and are left out.

    Raises `ValueError` for a language that the gateway does not have, `Refused`, `ConnectionError`.
    """
    async with connect(url, room=room, role="view", view="live", key=key) as client:
        offered(langs, client.welcome.languages)
        await client.want(*langs, backfill=0)
        begun = time.monotonic()
        async for event in client:
            recorder.note(event, time.monotonic() - begun)
            if isinstance(event, Source) and screen is not None:
                screen.finish(f"{event.speaker or 'somebody'}: {event.text}")
