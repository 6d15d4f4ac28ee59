"""A meeting played into a room of a running gateway, and the captions that its readers saw.

Owns: the sockets of a replay, its clock, and showing captions while it plays. Must not know: how
files are written, how figures are computed.

Each speaker has a socket, and so has each pair of a language and a view that is read.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from operator import sub
from pathlib import Path
from random import Random

import msgspec
from msgspec.structs import astuple, replace

from caption_tools import scrape
from caption_tools.console import read_text
from caption_tools.replay.analysis.measure import ReaderRecord, joined
from caption_tools.replay.analysis.screen import ScreenRecorder
from caption_tools.replay.meeting import script
from caption_tools.replay.meeting.script import RecogniserUpdate, ScriptUtterance
from gateway.cli.terminal import Screen, accepted, first_fault
from gateway.client import Client, NotTranslated, Refused, connect
from gateway.protocol.messages import Delta, Final, ServerMessage, Source, View
from gateway.text import languages, word_units

PARTING_S = 120.0  # seconds to wait for an answer, and at the end for captions in flight
PATIENCE_S = 10.0  # seconds to try to reach a gateway again after the connection broke
FILE_BYTES = 64 * 1024 * 1024  # largest file in bytes, enough for a recorded week


def load(
    path: Path, *, seed: int = 0, langs: Sequence[str] = (), source: str | None = None
) -> list[ScriptUtterance]:
    """Return the meeting in a file of JSON lines (``.jsonl``, ``.json``) or columns; see `script`.

    Raises `OSError`, and `ValueError` with a sentence.
    """
    text = read_text(path, FILE_BYTES)
    draw = Random(seed)  # the same seed makes the same meeting
    try:
        if path.suffix in (".jsonl", ".json"):
            meeting = script.parse(text, draw)
        else:
            meeting = script.columns(text, path.name, draw, langs=langs, source=source)
    except ValueError as exc:
        raise ValueError(f"{path}: {exc}") from exc
    if not meeting:
        raise ValueError(f"{path}: nothing is said in it.")
    return meeting


class EngineWork(msgspec.Struct, frozen=True):
    """Work of the engine, for all users of the gateway."""

    tokens: float  # that it has decoded
    drafted: float = 0.0  # tokens of earlier translations that it has checked
    accepted: float = 0.0  # of these, correct ones
    cpu_s: float = 0.0  # CPU time of the gateway, with an embedded engine in it; 0 if unknown


class Player:
    """One replay. After `play`, however it ended, the attributes have the results so far.

    :param utterances: the meeting, at the pace at which it is to be played
    :param to: canonical tags to read, each in every one of ``views``
    """

    def __init__(
        self,
        url: str,
        utterances: Sequence[ScriptUtterance],
        *,
        to: Sequence[str],
        views: Sequence[View],
        room: str | None = None,
        screen: Screen | None = None,
        key: str | None = None,
    ) -> None:
        self.url = url
        self._key = key
        self.utterances = utterances
        self.to = to
        self.views = views
        self.room = room or f"replay-{secrets.token_hex(4)}"
        self.engine = ""
        self.work: EngineWork | None = None  # work of the engine during the replay; None: unknown
        self.work_offline: EngineWork | None = None  # work of the engine during `compare`
        self.offline: dict[tuple[str, str], str] | None = None
        """Final captions of `compare`, by (id, language); empty if there was no caption."""
        self.whole = False  # True once all of it was played
        self.seconds = 0.0  # seconds that it took
        self.late = 0.0
        """The most seconds by which a text was sent too late. Above a few, figures mean little."""
        self.refused = 0  # texts that the gateway refused
        self._screen = screen
        self._growing: dict[str, str] = {}  # newest caption on the screen, by language
        self._connect = partial(connect, url, answer_s=PARTING_S, patience_s=PATIENCE_S, key=key)
        self._watches = {(lang, view): ScreenRecorder((lang,)) for view in views for lang in to}
        self._said: dict[str, ScriptUtterance] = {}
        self._begun = 0.0

    @property
    def begun(self) -> bool:
        """True if anything may have been sent."""
        return self._begun > 0

    def readings(self, lang: str, view: View) -> list[ReaderRecord]:
        """Return the captions that the reader of a language saw, for each utterance that was sent
        to its end.

        If the replay was cut short, utterances whose captions have not ended are left out.
        """
        watch = self._watches[lang, view]
        records = []
        for id, said in self._said.items():
            parts = [watch.history(part, lang) for part in watch.parts(id) or (id,)]
            reading = ReaderRecord(
                said=said, shown=joined(parts, spaced=word_units.spaced(lang)), parts=tuple(parts)
            )
            # After an early end a caption without an end was not lost, only not awaited.
            if self.whole or not reading.lost:
                records.append(reading)
        return records

    async def play(self) -> None:
        """Play the meeting, and wait for the captions. Cancelling ends it at once.

        Raises `ValueError` for a language that the gateway does not have, `Refused`, and
        `ConnectionError`.
        """
        before = await work(self.url, self._key)
        try:
            # Anything else is a bug and keeps its traceback.
            with first_fault(OSError, Refused):
                await self._play()
            self.work = _since(before, await work(self.url, self._key))
        finally:
            self._growing.clear()
            self._draw()

    async def compare(self) -> None:
        """Have the final texts alone translated, one after the other, in a new room.

        Raises as `play`.
        """
        before = await work(self.url, self._key)
        finals: dict[tuple[str, str], str] = {}
        async with self._connect(to=self.to, view="final") as client:
            for line in self.utterances:
                try:
                    id = await _say(client, line)
                except Refused:
                    continue
                for lang in self.to:
                    try:
                        finals[line.id, lang] = (await client.caption(id, lang)).text
                    except NotTranslated:
                        finals[line.id, lang] = ""
        self.work_offline = _since(before, await work(self.url, self._key))
        self.offline = finals

    async def _play(self) -> None:
        async with AsyncExitStack() as stack:
            speakers: list[tuple[Client, list[ScriptUtterance]]] = []
            by_speaker: dict[str | None, list[ScriptUtterance]] = {}
            for line in self.utterances:
                by_speaker.setdefault(line.speaker, []).append(line)
            for name, lines in by_speaker.items():
                socket = self._connect(
                    room=self.room, role="speak", source=lines[0].lang, speaker=name
                )
                speakers.append((await stack.enter_async_context(socket), lines))
            welcome = speakers[0][0].welcome
            self.engine = welcome.engine
            offered(self.to, welcome.languages)
            readers: list[tuple[Client, str, View]] = []
            for lang, view in self._watches:
                socket = self._connect(room=self.room, role="view", to=(lang,), view=view)
                readers.append((await stack.enter_async_context(socket), lang, view))
            self._begun = time.monotonic()
            try:
                async with asyncio.TaskGroup() as tasks:
                    for client, lang, view in readers:
                        tasks.create_task(self._read(client, lang, view))
                    said = [tasks.create_task(self._speak(*speaker)) for speaker in speakers]
                    await asyncio.wait(said)
                    # The answer to ``bye`` comes after all captions.
                    for client, _, _ in readers:
                        await client.bye()
                self.whole = True
            finally:
                self.seconds = self._now()

    async def _speak(self, client: Client, lines: Sequence[ScriptUtterance]) -> None:
        """Send the texts of one speaker, each when it is due."""
        for number, line in enumerate(lines, 1):
            id = f"{client.welcome.session}-{number}"
            await self._until(line.t0)
            began = self._now()
            sent: list[RecogniserUpdate] = []
            for update in line.updates:
                await self._until(update.at)
                at = self._now()
                try:
                    await client.say(
                        update.text, id=id, final=False, lang=line.lang, t0=line.t0, t1=update.at
                    )
                except Refused:  # the next update has the whole text again
                    self.refused += 1
                else:
                    sent.append(RecogniserUpdate(at, update.text))
            await self._until(line.t1)
            at = self._now()
            try:
                await _say(client, line, id=id)
            except Refused as exc:
                self.refused += 1
                if self._screen is not None:
                    self._screen.finish(f"! {exc}")
            else:
                self._said[id] = replace(line, t0=began, t1=at, updates=tuple(sent))
        await client.bye()

    async def _read(self, client: Client, lang: str, view: View) -> None:
        watch = self._watches[lang, view]
        shows = view == self.views[0]
        async for event in client:
            watch.note(event, self._now())
            if shows:
                self._show(event, lang, watch)

    def _show(self, event: ServerMessage, lang: str, watch: ScreenRecorder) -> None:
        """Show an event; the newest caption of each language grows in a line of its own."""
        if self._screen is None:
            return
        match event:
            # Every reader gets the original; it is shown once.
            case Source() if lang == self.to[0]:
                self._screen.finish(f"{event.speaker or 'Speaker'}: {event.text}")
            case Final():
                self._growing.pop(lang, None)
                self._screen.finish(f"[{lang}] {event.text}")
            case Delta():
                shown = watch.history(event.id, lang)
                self._growing[lang] = shown[-1].text if shown else ""
            case _:
                return
        self._draw()

    def _draw(self) -> None:
        if self._screen is not None:
            growing = [lang for lang in self.to if lang in self._growing]
            self._screen.draw([f"[{lang}] {self._growing[lang]}" for lang in growing])

    async def _until(self, at: float) -> None:
        wait = at - self._now()
        self.late = max(self.late, -wait)
        if wait > 0:
            await asyncio.sleep(wait)

    def _now(self) -> float:
        return time.monotonic() - self._begun


def offered(to: Iterable[str], known: Sequence[str]) -> None:
    """Raise `ValueError` if the gateway cannot translate into one of these languages."""
    missing = [lang for lang in to if languages.match(lang, known) is None]
    if missing:
        raise ValueError(
            f"This gateway does not have {', '.join(missing)}. It has: {', '.join(known)}."
        )


async def _say(client: Client, line: ScriptUtterance, id: str | None = None) -> str:
    """Send a final text until the gateway accepts it, and return its id. Raises `Refused`."""
    return await accepted(
        client.say, line.text, id=id, lang=line.lang, speaker=line.speaker, t0=line.t0, t1=line.t1
    )


async def work(url: str, key: str | None = None) -> EngineWork | None:
    """Return the work of the gateway's engine so far, or None if that is unknown."""
    try:
        values = scrape.parse(await scrape.Scraper(url, key).fetch())
        return EngineWork(
            values["gateway_tokens_total"],
            values.get("gateway_drafted_tokens_total", 0.0),
            values.get("gateway_accepted_tokens_total", 0.0),
            values.get("process_cpu_seconds_total", 0.0),
        )
    except (OSError, ValueError, KeyError):
        return None


def _since(before: EngineWork | None, after: EngineWork | None) -> EngineWork | None:
    if before is None or after is None:
        return None
    return EngineWork(*map(sub, astuple(after), astuple(before)))
