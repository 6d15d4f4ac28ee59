"""A live room written down, and played again."""

from __future__ import annotations

import asyncio
import io
from random import Random

import msgspec
import pytest

from caption_tools.replay.meeting import script
from caption_tools.replay.meeting.script import RecogniserUpdate, ScriptUtterance, ShownCaption
from caption_tools.replay.record import Recorder, record
from gateway.cli.terminal import Screen
from gateway.client import connect
from gateway.engines.scripted import ScriptedEngine
from gateway.protocol.messages import (
    Cancelled,
    Delta,
    Edited,
    Final,
    Retracted,
    ServerMessage,
    Source,
    Timing,
)
from tests.support.live import running, until

MS = Timing(queue=0, first=0, total=0)


def source(id: str, text: str = "Hi.") -> Source:
    return Source(seq=1, id=id, rev=2, ord=1, lang="en", text=text, speaker="Anna")


def final(id: str, lang: str, text: str) -> Final:
    return Final(seq=1, id=id, rev=2, ord=1, lang=lang, text=text, by="mt", ms=MS)


def draft(id: str, lang: str, text: str) -> Delta:
    return Delta(id=id, rev=1, lang=lang, draft=text, n=0)


def recorded(*events: ServerMessage, kept: int = 10, end: bool = True) -> list[ScriptUtterance]:
    """Return the file that is written of these events, which come a second apart."""
    found: list[ScriptUtterance] = []
    recorder = Recorder(("en", "de"), found.append, kept=kept)
    for at, event in enumerate(events, 1):
        recorder.note(event, float(at))
    if end:
        recorder.end()
        assert recorder.written == len(found)
    return found


def test_originals_are_written_with_their_updates_and_shown_captions() -> None:
    assert recorded(
        draft("a", "en", "good"),
        draft("a", "de", "Gut"),
        draft("a", "en", "good morning"),
        source("a", "Good morning."),
        final("a", "en", "Good morning."),
        final("a", "de", "Guten Morgen."),
    ) == [
        ScriptUtterance(
            id="a",
            lang="en",
            text="Good morning.",
            t0=1.0,
            t1=4.0,
            updates=(RecogniserUpdate(1.0, "good"), RecogniserUpdate(3.0, "good morning")),
            speaker="Anna",
            shown={
                "de": (ShownCaption(2.0, "", "Gut"), ShownCaption(6.0, "Guten Morgen.", "", True))
            },
        )
    ]


def test_an_utterance_without_updates_begins_when_it_came() -> None:
    (found,) = recorded(source("a"), final("a", "de", "Hallo."))
    assert (found.t0, found.t1, found.updates) == (1.0, 1.0, ())
    (found,) = recorded(source("a"))
    assert found.shown == {}


def test_a_correction_is_a_new_state_of_a_caption_or_the_text_of_an_original() -> None:
    (found,) = recorded(
        source("a", "Hi Ann."),
        final("a", "de", "Hallo Ann."),
        Edited(seq=1, id="a", rev=3, ord=1, lang="en", text="Hi Anna.", by="human"),
        Edited(seq=1, id="a", rev=3, ord=1, lang="de", text="Hallo Anna.", by="mt"),
        Edited(seq=1, id="b", rev=3, ord=1, lang="de", text="unknown", by="mt"),
    )
    assert found.text == "Hi Anna."
    assert [shown.text for shown in found.shown["de"]] == ["Hallo Ann.", "Hallo Anna."]


def test_retracted_and_unfinished_utterances_are_not_written() -> None:
    assert recorded(
        source("a"),
        final("a", "de", "Hallo."),
        Retracted(seq=1, id="a", ord=1),
        draft("b", "de", "Gu"),
        Cancelled(seq=1, id="b", rev=1, was="running"),
        source("c"),
        Cancelled(seq=1, id="c", rev=1, was="running"),
    )[0].shown == {"de": (ShownCaption(7.0, "", "", True),)}


def test_the_utterances_that_wait_to_be_written_are_bounded() -> None:
    found = recorded(source("a"), source("b"), source("c"), kept=2, end=False)
    assert [one.id for one in found] == ["a"]


async def test_a_live_room_is_recorded_and_can_be_played_again() -> None:
    async with running(ScriptedEngine()) as live:
        found: list[ScriptUtterance] = []
        heard = io.StringIO()
        recorder = Recorder(("en", "de"), found.append)
        async with connect(live.ws, room="demo", to=("de",)) as client:
            await client.caption(await client.say("before"), "de")
        recording = asyncio.create_task(
            record(live.ws, "demo", ("en", "de"), recorder, Screen(heard))
        )
        await until(lambda: any(session.member.langs for session in live.hub.sessions.values()))
        async with connect(live.ws, room="demo", source="en", speaker="Anna") as client:
            for text in ("good", "good morning"):
                await client.say(text, id="a", final=False)
            await until(lambda: bool(recorder._watch.history("a", "en")))
            await client.say("Good morning.", id="a")
            await client.bye()
        await until(lambda: bool(heard.getvalue()))
        async with connect(live.ws, room="demo", role="view", to=("de",)) as client:
            await client.caption("a", "de")
        recording.cancel()
        with pytest.raises(asyncio.CancelledError):
            await recording
        recorder.end()
        assert heard.getvalue() == "Anna: Good morning.\n"
        (one,) = found
        assert (one.lang, one.text, one.speaker) == ("en", "Good morning.", "Anna")
        assert one.updates
        assert all("Good morning.".lower().startswith(update.text) for update in one.updates)
        line = msgspec.json.encode(one).decode()
        assert script.parse(line, Random(0)) == found


async def test_a_language_that_the_gateway_does_not_have_is_named() -> None:
    async with running() as live:
        with pytest.raises(ValueError, match="does not have tlh"):
            await record(live.ws, "demo", ("tlh",), Recorder(("tlh",), lambda _: None))
