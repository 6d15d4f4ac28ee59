"""The command ``gateway listen``: speech of a file, a pipe or a microphone, captioned.

Owns: the flags, decoding with ffmpeg, the captions and the progress on the screen, subtitle files.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import re
import shutil
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from gateway.cli.flags import add_url, check_outputs, tags
from gateway.cli.terminal import NEEDS_KEY, Screen, api_key, complain, first_fault, note
from gateway.client import Captions, Client, Refused, connect
from gateway.core.history.event_log import LogEntry
from gateway.core.transcripts.formats import text_formats
from gateway.core.transcripts.transcript import Transcript
from gateway.protocol.audio import AudioState, HeardSpeech
from gateway.protocol.messages import Failed, Final, ServerMessage, Source
from gateway.protocol.notices import Error
from gateway.text import languages

RATE = 16_000  # samples per second that are sent, which are those that recognisers read
READ = RATE // 10 * 2  # bytes that are read from ffmpeg at once: a tenth of a second
PARTING_S = 120.0  # seconds to wait at the end for captions that are in flight
BAR = 30  # characters of the progress bar
MICROPHONE = {"darwin": "ffmpeg -f avfoundation -i :0", "win32": 'ffmpeg -f dshow -i audio="NAME"'}
"""Commands that record the microphone, by platform."""

_DURATION = re.compile(rb"Duration: (\d+):(\d\d):(\d\d\.\d+)")


class ListenFault(ValueError):
    """Sound that cannot be decoded. The message is for people."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add("source", nargs="?", metavar="FILE", help="file with sound or film, or - for a pipe")
    add_url(parser)
    langs = "languages to translate into"
    add("--to", type=tags, default=(), metavar="LANG[,LANG]", help=langs)
    spoken = "languages that are spoken; default: as the gateway detects"
    add("--from", dest="spoken", metavar="LANG[,LANG]", help=spoken)
    add("--room", help="room that others read; default: a new private room")
    add("--speaker", metavar="NAME", help="name that others in the room see")
    save = "subtitles of what was said, as .vtt, .srt or .txt; each language beside it"
    add("--save", type=Path, metavar="FILE", help=save)
    parser.epilog = NEEDS_KEY


def run(args: argparse.Namespace) -> int:
    """Send the sound, show and save its captions, and return the exit status. Raises `ListenFault`,
    `OSError`, `ValueError`, and as `gateway.client` does.
    """
    if args.source is None:
        record = MICROPHONE.get(sys.platform, "ffmpeg -f pulse -i default")
        microphone = f"{record} -loglevel error -f wav - | gateway listen - --to de"
        complain(f"Name a file, or - for a pipe. To send the microphone:\n  {microphone}")
        return 2
    to = tuple(languages.normalise(tag) for tag in args.to)
    if args.save is not None:
        _writer(args.save)
        check_outputs((args.save,))
    if args.source != "-" and not Path(args.source).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), args.source)
    terminal = Screen(sys.stdout)
    screen = SpeechScreen(terminal, several=len(to) > 1)
    try:
        asyncio.run(_listen(args, to, screen))
    finally:  # after Ctrl-C too
        terminal.draw([])
        if args.save is not None and screen.heard:
            note("saved " + ", ".join(map(str, screen.save(args.save, to))))
    if not screen.heard:
        note("No speech was heard.")
    return 1 if screen.failed else 0


def _writer(file: Path) -> Callable[..., str]:
    """Return the writer of subtitles in the format of a file. Raises `ValueError`."""
    format = text_formats().get(file.suffix.removeprefix("."))
    if format is None:
        *most, last = (f".{name}" for name in text_formats())
        raise ValueError(f"{file} cannot be saved: a name ends in {', '.join(most)} or {last}.")
    return format.write


async def _listen(args: argparse.Namespace, to: Iterable[str], listener: SpeechScreen) -> None:
    """Send the sound, and show the events until the gateway has answered all of it."""
    with first_fault(OSError, Refused, ListenFault):
        async with (
            connect(
                args.url, to=to, source=args.spoken, room=args.room, speaker=args.speaker,
                answer_s=PARTING_S, key=api_key(),
            ) as client,
            _decoded(args.source, listener) as sound,
            asyncio.TaskGroup() as tasks,
        ):  # fmt: skip
            tasks.create_task(_send(client, sound))
            async for event in client:
                listener.note(event)


async def _send(client: Client, sound: AsyncIterator[bytes]) -> None:
    await client.send_audio(sound, rate=RATE)
    await client.bye()


@asynccontextmanager
async def _decoded(source: str, listener: SpeechScreen) -> AsyncGenerator[AsyncIterator[bytes]]:
    """Yield the sound as PCM. Raises `ListenFault`."""
    program = shutil.which("ffmpeg")
    if program is None:
        raise ListenFault(
            "Audio is decoded with ffmpeg, which is not installed: apt install ffmpeg, or brew"
            " install ffmpeg."
        )
    place = "pipe:0" if source == "-" else f"file:{source}"
    # Without the two limits ffmpeg reads five seconds of a pipe before it begins.
    quick = ("-probesize", "32768", "-analyzeduration", "0") if source == "-" else ()
    ffmpeg = await asyncio.create_subprocess_exec(
        program, "-hide_banner", "-nostats", *quick, "-i", place,
        "-vn", "-f", "s16le", "-ac", "1", "-ar", str(RATE), "-",
        stdin=None if source == "-" else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    stdout, stderr = ffmpeg.stdout, ffmpeg.stderr
    assert stdout is not None and stderr is not None
    said: deque[bytes] = deque(maxlen=20)
    reading = asyncio.create_task(_watch(stderr, said, listener))

    async def samples() -> AsyncGenerator[bytes]:
        heard = False
        while sound := await stdout.read(READ):
            heard = True
            yield sound
        await reading
        if await ffmpeg.wait() and not heard:
            why = said[-1].decode(errors="replace").strip() if said else "ffmpeg failed."
            what = "the input" if source == "-" else source
            raise ListenFault(f"ffmpeg finds no sound in {what}: {why}")

    try:
        yield samples()
    finally:
        with suppress(ProcessLookupError):
            ffmpeg.kill()
        await reading
        await ffmpeg.communicate()  # see `gateway.server.audio.files`: `wait` alone may not end


async def _watch(stderr: asyncio.StreamReader, said: deque[bytes], listener: SpeechScreen) -> None:
    """Read the messages of ffmpeg: the length of the file, and why it cannot read it."""
    while line := await stderr.readline():
        if line.strip():
            said.append(line)
        if listener.total is None and (match := _DURATION.search(line)) is not None:
            hours, minutes, seconds = map(float, match.groups())
            listener.total = 3600 * hours + 60 * minutes + seconds


class SpeechScreen:
    """The captions of one speaker on the screen, kept for subtitle files."""

    def __init__(self, screen: Screen, *, several: bool) -> None:
        self.total: float | None = None  # seconds of the whole sound, if they are known
        self.failed = 0  # captions that could not be made
        self._screen = screen
        self._several = several
        self._captions = Captions()
        self._heard: dict[str, str] = {}  # growing originals, by id
        self._own: set[str] = set()
        self._entries: list[LogEntry] = []
        self._settled = self._lost = 0.0

    @property
    def heard(self) -> bool:
        """True if there is anything to save."""
        return bool(self._entries)

    def note(self, event: ServerMessage) -> None:
        """Show an event."""
        self._captions.fold(event)
        match event:
            case HeardSpeech():
                self._own.add(event.id)
                self._heard[event.id] = event.text
            case AudioState(codec=codec) if codec != "none":
                self._settled = max(self._settled, event.seconds)
                if event.lost > self._lost:
                    new, self._lost = event.lost - self._lost, event.lost
                    complain(f"{new:.1f} s of speech were not recognised: the gateway is late.")
            case Source():
                self._heard.pop(event.id.partition(".")[0], None)
                self._keep(event)
                self._screen.finish(event.text)
            case Final():
                self._keep(event)
                if event.by != "same":
                    self._screen.finish(self._line(event.lang, event.text))
            case Failed():
                self._keep(event)
                self.failed += 1
                complain(f"[{event.lang}] not translated: {event.code}")
            case Error(ref=None):
                complain(f"{event.msg} {event.hint or ''}".strip())
        self._screen.draw(self._growing())

    def save(self, file: Path, to: Iterable[str]) -> list[Path]:
        """Write the original to ``file``, captions to files like ``talk.de.vtt``; return all."""
        write = _writer(file)
        # In a room of others these are not the first events, but all of this speaker's.
        transcript = replace(Transcript.of(self._entries), complete=True)
        files = {file: None} | {file.with_suffix(f".{lang}{file.suffix}"): lang for lang in to}
        for path, lang in files.items():
            path.write_text(write(transcript, (lang,)), encoding="utf-8")
        return list(files)

    def _keep(self, event: Source | Final | Failed) -> None:
        if event.id.partition(".")[0] in self._own:
            # The clock of a file is its own: an utterance counts as arrived when it has ended.
            at = getattr(event, "t1", None)
            self._entries.append(LogEntry(event, self._settled if at is None else at))

    def _growing(self) -> list[str]:
        lines = [text for text in self._heard.values() if text]
        lines += [self._line(lang, caption.text) for (_, lang), caption in self._captions.growing()]
        if self.total:
            done = min(1.0, self._settled / self.total)
            filled = round(BAR * done)
            clock = f"{_clock(self._settled)} of {_clock(self.total)}"
            lines.append(f"{'█' * filled}{'░' * (BAR - filled)} {done:4.0%}  {clock}")
        return lines

    def _line(self, lang: str, text: str) -> str:
        return f"[{lang}] {text}" if self._several else text


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
