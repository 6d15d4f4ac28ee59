"""The command ``gateway chat``: typed lines go out, captions come in.

Owns: the flags, and the text shown for each event and for the state of the connection.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import aclosing

from gateway.cli.flags import add_languages, add_url
from gateway.cli.terminal import (
    NEEDS_KEY,
    Screen,
    accepted,
    api_key,
    complain,
    first_fault,
    head,
    lines,
)
from gateway.client import Captions, Client, Disconnected, Refused, connect
from gateway.protocol import messages
from gateway.protocol.messages import ServerMessage, Welcome
from gateway.protocol.notices import Error

PARTING_S = 120.0  # seconds to wait at the end for captions that are in flight
NOTE_COLUMNS = 32  # columns in which is said which line was corrected or taken back


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_url(parser)
    add_languages(parser, required=False)
    parser.add_argument("--room", help="room to join; default: a new private room")
    speaker = "your name, shown to others in the room"
    parser.add_argument("--speaker", metavar="NAME", help=speaker)
    parser.epilog = NEEDS_KEY


def run(args: argparse.Namespace) -> int:
    """Converse until the input ends, and return the exit status. Raises as `connect`."""
    asyncio.run(converse(args))
    return 0


async def converse(args: argparse.Namespace) -> None:
    """Send typed lines and show captions until the input ends. Raises as `run`."""
    screen = Screen(sys.stdout)
    notices = ConnectionNotices(screen)
    with first_fault(OSError, Refused):
        async with (
            connect(
                args.url, to=args.to, source=args.source, room=args.room, speaker=args.speaker,
                answer_s=PARTING_S, notice=notices.tell, key=api_key(),
            ) as client,
            asyncio.TaskGroup() as tasks,
        ):  # fmt: skip
            if not args.to:
                complain(
                    "You read no language. Add --to de,fr to read translations of what is said."
                )
            if screen.live:
                screen.finish(f"# {client.welcome.engine}. Type a line; Ctrl-D ends.")
            name = client.welcome.session
            typing = tasks.create_task(_type(client, name, screen))
            captions = Captions()
            async for event in client:
                line = _line(event, name, captions)
                captions.fold(event)
                if line is not None:
                    screen.finish(line)
                screen.draw(
                    [f"[{lang}] {caption.text}" for (_, lang), caption in captions.growing()]
                )
            # The gateway has closed: further input has no recipient.
            typing.cancel()


class ConnectionNotices:
    """Notices on the screen when the connection breaks and when it is back."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._broken = False

    def tell(self, news: Disconnected | Welcome) -> None:
        if isinstance(news, Disconnected):
            if not self._broken:
                self._screen.finish(f"# No connection ({news.code}). Trying again; Ctrl-C ends.")
            self._broken = True
            return
        if news.resumed is None or not news.resumed.ok:
            self._screen.finish("# Connected again; something may have been missed.")
        elif self._broken:
            self._screen.finish("# Connected again; nothing was missed.")
        self._broken = False


async def _type(client: Client, name: str, screen: Screen) -> None:
    """Send each typed line, and ``bye`` at the end of the input."""
    count = 0
    async with aclosing(lines(sys.stdin.fileno())) as typed:
        async for line in typed:
            screen.typed(line)
            count += 1
            if line.strip():
                try:
                    await accepted(client.say, line, id=f"{name}-{count}")
                except Refused as exc:
                    screen.finish(f"! {exc}")
    await accepted(client.bye)


def _line(event: ServerMessage, session: str, before: Captions) -> str | None:
    """Return the line to print for an event, or None if there is none, as for a growing caption."""
    original = before.originals.get(getattr(event, "id", ""))
    text = original.text if original else ""
    match event:
        case messages.Final():
            return f"[{event.lang}] {event.text}"
        case messages.Failed():
            return f"[{event.lang}] (not translated: {event.code}) {text}"
        case messages.Edited(by="human") if original is not None and original.lang == event.lang:
            return f"{original.speaker or 'somebody'}: {event.text} {_instead(text)}"
        case messages.Edited():
            was = before[event.id, event.lang].text
            return None if was == event.text else f"[{event.lang}] {event.text} {_instead(was)}"
        case messages.Retracted():
            return f"(taken back: {head(text, NOTE_COLUMNS)})" if text else None
        case messages.Source() if not event.id.startswith(f"{session}-"):
            return f"{event.speaker or 'somebody'}: {event.text}"
        case Error(ref=None, retry=False):  # other errors answer a line, which is sent again
            return f"! {event.msg} {event.hint or ''}"
        case _:
            return None


def _instead(text: str) -> str:
    """Return a note that names the earlier text which a correction replaces."""
    return f"(instead of: {head(text, NOTE_COLUMNS)})" if text else "(corrected)"
