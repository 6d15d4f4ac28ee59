"""The client against a real gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal, TypeVar

import msgspec
import pytest

from gateway.client import Client, NotTranslated, Refused, connect
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.errors import EngineFault
from gateway.protocol.messages import Edited, Failed, Final, Retracted, Snapshot, Source
from tests.support.live import Live, running

Event = TypeVar("Event", bound=msgspec.Struct)


async def until(client: Client, kind: type[Event], count: int) -> AsyncIterator[Event]:
    """Return the next ``count`` events of a kind, and skip others."""
    async for event in client:
        if isinstance(event, kind):
            yield event
            count -= 1
            if count == 0:
                return


@pytest.mark.parametrize("codec", ["json", "msgpack"])
async def test_an_utterance_returns_as_finished_captions(
    live: Live, codec: Literal["json", "msgpack"]
) -> None:
    async with connect(live.ws, source="en", to=("de", "fr"), codec=codec) as client:
        assert client.welcome.engine == "scripted"
        assert client.socket.subprotocol == f"gw.v1.{codec}"
        id = await client.say("good morning", id="mine")
        assert id == "mine"
        captions = await asyncio.gather(client.caption(id, "fr"), client.caption(id, "de"))
        assert [caption.text for caption in captions] == [
            "[fr] good morning",
            "[de] good morning",
        ]
        assert (await client.caption(id, "de")).text == "[de] good morning", "asked again"


async def test_events_arrive_in_order_and_end_after_bye(live: Live) -> None:
    async with connect(live.ws, source="en", to=("de",)) as client:
        id = await client.say("good morning")
        last = await client.bye()
        events = [event async for event in client]
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["Ack", "Source", "Delta", "Delta", "Delta", "Final", "Stats"]
    assert all(getattr(event, "id", None) == id for event in events[:-1])
    assert events[-1] == last
    assert (last.said, last.finals) == (1, 1)


async def test_every_request_gets_its_own_answer(live: Live) -> None:
    async with connect(live.ws, source="en") as client:
        id = await client.say("hello")
        await client.want("de", view="final")
        snapshot, settings, stats, cancelled = await asyncio.gather(
            client.get(id),
            client.set(context="greetings", source="fr", glossary={"a": "b"}),
            client.stats(),
            client.cancel("never said"),
        )
        assert snapshot.text == "hello"
        assert (settings.context, settings.from_) == ("greetings", "fr")
        assert stats.said == 1
        assert (cancelled.id, cancelled.was) == ("never said", "none")


async def test_a_refused_request_raises_the_error_of_the_gateway(live: Live) -> None:
    async with connect(live.ws, source="en") as client:
        with pytest.raises(Refused, match="empty") as caught:
            await client.say("  ")
        assert caught.value.error.code == "empty_text"
        with pytest.raises(Refused, match="does not have 'qq'"):
            await client.want("qq")
        with pytest.raises(Refused) as caught:
            await client.get("never said")
        assert caught.value.error.code == "not_found"
        await client.want("de")  # the socket is still good


async def test_a_failed_caption_raises_its_code() -> None:
    engine = ScriptedEngine(fault=failing(EngineFault("It broke.")))
    async with running(engine, lang="en") as live, connect(live.ws, to=("de",)) as client:
        with pytest.raises(NotTranslated, match="engine_unavailable") as caught:
            await client.caption(await client.say("hello"), "de")
        assert isinstance(caught.value.event, Failed)


async def test_a_cancelled_caption_raises_in_every_language() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine, lang="en") as live, connect(live.ws, to=("de", "fr")) as client:
        id = await client.say("hello")
        waiting = asyncio.create_task(client.caption(id, "fr"))
        assert (await client.cancel(id, "de")).lang == "de"
        assert (await client.cancel(id)).lang is None
        with pytest.raises(NotTranslated, match="cancelled"):
            await waiting
        with pytest.raises(NotTranslated, match="cancelled"):
            await client.caption(id, "de")


async def test_only_speakers_and_moderators_can_correct_a_caption(live: Live) -> None:
    async with (
        connect(live.ws, room="edits", source="en", to=("de",)) as ann,
        connect(live.ws, room="edits", to=("de", "fr"), role="moderate") as ben,
        connect(live.ws, room="edits", to=("de",)) as cyd,
    ):
        id = await ann.say("hello")
        await asyncio.gather(*(one.caption(id, "de") for one in (ann, ben, cyd)))
        await ann.edit(id, "de", "Hallo.")
        await ben.edit(id, "fr", "Salut.")
        with pytest.raises(Refused) as caught:
            await cyd.edit(id, "de", "Nein.")
        assert caught.value.error.code == "forbidden"
        for one in (ann, ben, cyd):
            assert (await one.caption(id, "de")).text == "Hallo."
        corrected = await ben.caption(id, "fr")
        assert (corrected.text, corrected.by) == ("Salut.", "human")


async def test_a_corrected_original_is_translated_again(
    live: Live,
) -> None:
    async with connect(live.ws, source="en", to=("de",)) as client:
        id = await client.say("hello")
        await client.caption(id, "de")
        await client.edit(id, "en", "goodbye")
        edited = [event async for event in until(client, Edited, 2)]
        assert [(event.lang, event.text, event.by) for event in edited] == [
            ("en", "goodbye", "human"),
            ("de", "[de] goodbye", "mt"),
        ]
        assert (await client.caption(id, "de")).text == "[de] goodbye"


async def test_an_unfinished_caption_can_be_corrected() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine, lang="en") as live, connect(live.ws, to=("de",)) as client:
        id = await client.say("hello")
        await client.edit(id, "de", "Hallo.")
        final = await client.caption(id, "de")
        assert isinstance(final, Final)
        assert (final.text, final.by) == ("Hallo.", "human")


async def test_a_withdrawn_utterance_has_no_caption(live: Live) -> None:
    async with connect(live.ws, source="en", to=("de",)) as client:
        id = await client.say("hello")
        await client.caption(id, "de")
        assert (await client.retract(id)).id == id
        with pytest.raises(NotTranslated, match="withdrawn") as caught:
            await client.caption(id, "de")
        assert isinstance(caught.value.event, Retracted)
        with pytest.raises(Refused):
            await client.retract(id)


async def test_a_part_of_a_long_utterance_has_an_id_of_its_own(live: Live) -> None:
    words = [f"word{n}" for n in range(60)]

    async with connect(live.ws, source="en", to=("de",)) as client:
        for count in (*range(10, 60, 5), 60):
            await client.say(" ".join(words[:count]), id="long", final=count == 60)
        await client.caption("long", "de")
        await client.edit("long.2", "de", "Und so weiter.")
        assert (await client.caption("long.2", "de")).text == "Und so weiter."
        await client.bye()
        said = [event async for event in client if isinstance(event, Source)]
        assert said[0].id == "long"
        assert " ".join(event.text for event in said) == " ".join(words)


async def test_a_new_language_arrives_with_earlier_utterances(live: Live) -> None:
    async with (
        connect(live.ws, room="late", source="en", to=("de",)) as ann,
        connect(live.ws, room="late", to=("fr",)) as ben,
    ):
        ids = [await ann.say(text) for text in ("one", "two", "three")]
        await asyncio.gather(*(ben.caption(id, "fr") for id in ids))
        await ann.want("de", "fr", backfill=2)
        shots = [event async for event in until(ann, Snapshot, 2)]
        assert [(shot.text, shot.lines[0].text) for shot in shots] == [
            ("two", "[fr] two"),
            ("three", "[fr] three"),
        ]
        await ann.want("de", "fr", "it", backfill=1)
        assert (await ann.caption(ids[2], "it")).text == "[it] three"
