"""The client against a real gateway, and against servers that do what no gateway should."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal

import msgspec
import pytest
import websockets
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import ServerConnection

from gateway import client
from gateway.client import Captions, Lost, NotTranslated, Refused, connect
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.errors import CloseCode, EngineFault
from gateway.job import Chunk
from gateway.messages import (
    DURABLE,
    Cancelled,
    Delta,
    Failed,
    Final,
    LimitsInfo,
    Line,
    ServerMessage,
    Snapshot,
    Tick,
    Timing,
    Welcome,
)
from gateway.outbox import merge
from gateway.utterance import Caption
from tests.live import Live, running

MS = Timing(queue=0, first=0, total=0)
WELCOME = Welcome(
    v=1,
    session="s",
    room="r",
    epoch="e",
    seq=0,
    resume=None,
    engine="fake",
    languages=("de",),
    limits=LimitsInfo(frame=1, text=1, inflight=1, targets=1, rate=1.0),
)

Handler = Callable[[ServerConnection], Awaitable[None]]


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine that must end by itself."""

    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(bounded())


async def send(socket: ServerConnection, *events: ServerMessage | dict[str, object]) -> None:
    for event in events:
        await socket.send(msgspec.json.encode(event), text=True)


async def ask(socket: ServerConnection) -> dict[str, str]:
    """The next request of the client."""
    request: dict[str, str] = msgspec.json.decode(await socket.recv())
    return request


@asynccontextmanager
async def fake(handler: Handler) -> AsyncIterator[str]:
    """The address of a server that does what ``handler`` says, and nothing more."""
    async with websockets.serve(handler, "127.0.0.1", 0, subprotocols=["gw.v1.json"]) as server:  # type: ignore[list-item]
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


# --- against a gateway ---------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_what_is_said_comes_back_as_finished_captions(
    live: Live, codec: Literal["json", "msgpack"]
) -> None:
    async def test() -> None:
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

    run(test)


def test_events_come_in_order_and_end_after_bye(live: Live) -> None:
    async def test() -> None:
        async with connect(live.ws, source="en", to=("de",)) as client:
            id = await client.say("good morning")
            last = await client.bye()
            events = [event async for event in client]
        kinds = [type(event).__name__ for event in events]
        assert kinds == ["Ack", "Source", "Delta", "Delta", "Delta", "Final", "Stats"]
        assert all(event.id == id for event in events[:-1])  # type: ignore[union-attr]
        assert events[-1] == last
        assert (last.said, last.finals) == (1, 1)

    run(test)


def test_every_request_gets_its_own_answer(live: Live) -> None:
    async def test() -> None:
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

    run(test)


def test_what_the_gateway_refuses_is_raised_with_its_error(live: Live) -> None:
    async def test() -> None:
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

    run(test)


def test_a_caption_that_failed_raises_why() -> None:
    async def test() -> None:
        engine = ScriptedEngine(fault=failing(EngineFault("It broke.")))
        async with running(engine, lang="en") as live, connect(live.ws, to=("de",)) as client:
            with pytest.raises(NotTranslated, match="engine_unavailable") as caught:
                await client.caption(await client.say("hello"), "de")
            assert isinstance(caught.value.event, Failed)

    run(test)


def test_a_caption_that_was_cancelled_raises_so_for_every_language() -> None:
    async def test() -> None:
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

    run(test)


def test_a_client_far_away_can_be_addressed_in_many_ways() -> None:
    asked = []

    async def handler(socket: ServerConnection) -> None:
        assert socket.request is not None
        asked.append(socket.request.path)
        await send(socket, WELCOME)

    async def test() -> None:
        async with fake(handler) as url:
            place = url.removeprefix("ws://")
            for way in (place, f"http://{place}/", f"{url}/behind/proxy?key=1"):
                async with connect(way, room="r", to=("de", "fr"), speaker="Zoë & co"):
                    pass

    run(test)
    query = "room=r&to=de,fr&speaker=Zo%C3%AB+%26+co"
    assert asked == [f"/v1/ws?{query}", f"/v1/ws?{query}", f"/behind/proxy?key=1&{query}"]


@pytest.mark.parametrize("url", ["ftp://there", "ws://", "", "ws://there:port", "ws://me@there"])
def test_what_is_no_address_is_told(url: str) -> None:
    async def test() -> None:
        with pytest.raises(ValueError):
            async with connect(url):
                pass

    run(test)


# --- against other servers -----------------------------------------------------------------------


def test_events_of_unknown_types_are_skipped_and_unknown_fields_ignored() -> None:
    async def handler(socket: ServerConnection) -> None:
        await send(
            socket,
            WELCOME,
            {"type": "presence", "readers": {"de": 3}},
            {"type": "tick", "seq": 7, "later": "version"},
        )

    async def test() -> None:
        async with fake(handler) as url, connect(url) as client:
            assert [event async for event in client] == [Tick(seq=7)]

    run(test)


@pytest.mark.parametrize("frame", ['{"type":"tick","seq":"seven"}', "no JSON"])
def test_what_is_no_event_ends_the_connection_with_a_sentence(frame: str) -> None:
    async def handler(socket: ServerConnection) -> None:
        await send(socket, WELCOME)
        await socket.send(frame)
        await socket.wait_closed()

    async def test() -> None:
        async with fake(handler) as url, connect(url) as client:
            with pytest.raises(Lost, match="no event"):
                await anext(client)

    run(test)


def test_who_is_turned_away_learns_why() -> None:
    async def handler(socket: ServerConnection) -> None:
        error = {"type": "error", "code": "unauthenticated", "fatal": True, "retry": False}
        await send(socket, error | {"msg": "No key.", "hint": "Bring one."})
        await socket.close(4401)

    async def test() -> None:
        async with fake(handler) as url:
            with pytest.raises(Refused, match=r"No key\. Bring one\."):
                async with connect(url):
                    pass

    run(test)


def test_a_server_that_is_no_gateway_is_an_error_with_a_sentence(live: Live) -> None:
    async def closes(socket: ServerConnection) -> None:
        await socket.close(4029, "Full.")

    async def chats(socket: ServerConnection) -> None:
        await send(socket, Tick(seq=1))

    async def test() -> None:
        async with fake(closes) as url:
            with pytest.raises(Lost, match=r"4029.*Full"):
                async with connect(url):
                    pass
        async with fake(chats) as url:
            with pytest.raises(ConnectionError, match="no gateway"):
                async with connect(url):
                    pass
        with pytest.raises(ConnectionError, match="There is no gateway at"):
            async with connect(live.ws + "/healthz"):
                pass

    run(test)


def test_nobody_at_the_address_is_an_error_with_a_sentence() -> None:
    async def test() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with pytest.raises(ConnectionError, match="Is it running"):
            async with connect(f"ws://127.0.0.1:{port}"):
                pass

    run(test)


@pytest.mark.parametrize(
    ("code", "reconnect"),
    [(code, code.reconnect) for code in CloseCode if code is not CloseCode.DONE]
    + [(1011, True), (1012, True)],
)
def test_a_lost_connection_is_raised_and_says_whether_to_come_again(
    code: int, reconnect: bool
) -> None:
    async def handler(socket: ServerConnection) -> None:
        await send(socket, WELCOME)
        await ask(socket)
        await socket.close(code, "Because.")

    async def test() -> None:
        async with fake(handler) as url, connect(url) as client:
            waiting = asyncio.create_task(client.caption("a", "de"))
            with pytest.raises(Lost, match=f"{code:d}.*Because"):
                await client.say("hello")
            for again in (waiting, anext(client), client.stats(), client.caption("a", "de")):
                with pytest.raises(Lost) as caught:
                    await again
                assert caught.value.reconnect is reconnect

    run(test)


def test_a_cut_connection_is_lost_and_to_be_made_again() -> None:
    async def handler(socket: ServerConnection) -> None:
        await send(socket, WELCOME)
        socket.transport.abort()

    async def test() -> None:
        async with fake(handler) as url, connect(url) as client:
            with pytest.raises(Lost) as caught:
                await anext(client)
            assert caught.value.reconnect

    run(test)


def test_an_error_without_ref_about_the_rate_answers_the_oldest_request() -> None:
    async def handler(socket: ServerConnection) -> None:
        await send(socket, WELCOME)
        await ask(socket)
        second = await ask(socket)
        error = {"type": "error", "fatal": False, "retry": True, "msg": "Slower."}
        await send(
            socket,
            error | {"code": "lang_unsupported"},  # of `to=`, it answers nothing
            error | {"code": "rate"},
            {"type": "ack", "id": "b", "rev": 1, "ord": 1, "ref": second["ref"]},
        )

    async def test() -> None:
        async with fake(handler) as url, connect(url) as client:
            first, second = await asyncio.gather(
                client.say("a"), client.say("b"), return_exceptions=True
            )
            assert isinstance(first, Refused)
            assert second == "b"

    run(test)


def test_an_answer_that_does_not_come_is_a_timeout_with_a_sentence() -> None:
    async def handler(socket: ServerConnection) -> None:
        await send(socket, WELCOME)
        await socket.wait_closed()

    async def test() -> None:
        async with fake(handler) as url, connect(url, answer_s=0.01) as client:
            with pytest.raises(TimeoutError, match="did not answer say"):
                await client.say("hello")

    run(test)


async def flood(socket: ServerConnection) -> None:
    """More events than the client keeps, then the answer to what was asked, then one more."""
    await send(socket, WELCOME)
    request = await ask(socket)
    await send(socket, *(Tick(seq=n) for n in range(FLOOD)))
    await send(
        socket,
        {"type": "ack", "id": "a", "rev": 1, "ord": 1, "ref": request["ref"]},
        Tick(seq=FLOOD),
    )


FLOOD = client.QUEUE + 100


def test_a_program_that_iterates_and_is_late_loses_nothing() -> None:
    async def test() -> None:
        async with fake(flood) as url, connect(url) as client:
            saying = asyncio.create_task(client.say("hello"))
            events = []
            async for event in client:
                await asyncio.sleep(0)  # others first: the queue fills up
                events.append(event)
                if not saying.done():
                    assert len(client._events) <= FLOOD - 100
            assert [e.seq for e in events if isinstance(e, Tick)] == list(range(FLOOD + 1))
            assert await saying == "a"

    run(test)


def test_a_program_that_iterates_and_stalls_makes_the_client_stop_reading() -> None:
    async def test() -> None:
        async with fake(flood) as url, connect(url, answer_s=0.2) as client:
            aiter(client)
            with pytest.raises(TimeoutError, match="has to go on"):
                await client.say("hello")
            assert len(client._events) == FLOOD - 100

    run(test)  # and leaving does not hang


def test_a_program_that_never_iterates_gets_its_answers_and_loses_the_oldest_events() -> None:
    async def test() -> None:
        async with fake(flood) as url, connect(url) as client:
            assert await client.say("hello") == "a"
            await client.socket.wait_closed()
            events = [event async for event in client]
            assert len(events) == FLOOD - 100
            assert events[-1] == Tick(seq=FLOOD)

    run(test)


def test_memory_of_endings_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "KEPT", 2)
    ended = [
        Failed(seq=n, id=str(n), rev=1, ord=n, lang="de", code="x", retry=False) for n in (1, 2, 3)
    ]

    async def handler(socket: ServerConnection) -> None:
        await send(socket, WELCOME, *ended)

    async def test() -> None:
        async with fake(handler) as url, connect(url) as client:
            assert [event async for event in client] == ended
            with pytest.raises(NotTranslated):
                await client.caption("3", "de")
            with pytest.raises(Lost):
                await client.caption("1", "de")

    run(test)


# --- captions ------------------------------------------------------------------------------------


def delta(
    add: str = "", *, n: int, draft: str | None = None, rev: int = 1, reset: bool = False
) -> Delta:
    return Delta(id="a", rev=rev, lang="de", add=add, draft=draft, reset=reset, n=n)


def final(text: str, id: str = "a") -> Final:
    return Final(seq=1, id=id, rev=1, ord=1, lang="de", text=text, by="mt", ms=MS)


def folded(*events: ServerMessage) -> Captions:
    captions = Captions()
    for event in events:
        captions.fold(event)
    return captions


def test_a_caption_is_its_stable_text_and_its_draft() -> None:
    captions = folded(delta("Guten", n=5), delta(" Morgen", n=12, draft=" allerseits"))
    caption = captions["a", "de"]
    assert (caption.stable, caption.draft, caption.text) == (
        "Guten Morgen",
        " allerseits",
        "Guten Morgen allerseits",
    )
    assert captions.growing() == [(("a", "de"), caption)]
    assert captions["a", "fr"].text == ""


def test_a_reset_empties_the_stable_text_first() -> None:
    assert folded(delta("Falsch", n=6), delta("Gut", n=3, reset=True))["a", "de"].stable == "Gut"


def test_a_final_replaces_everything_and_nothing_changes_it() -> None:
    captions = folded(delta("Gu", n=2, draft="t?"), final("Guten Tag"), delta("x", n=1, rev=9))
    assert captions["a", "de"].text == "Guten Tag"
    assert captions["a", "de"].state == "final"
    assert captions.growing() == []


def test_a_delta_of_an_older_revision_is_not_heard() -> None:
    assert folded(delta(n=0, draft="new", rev=2), delta(n=0, draft="old"))["a", "de"].text == "new"


def test_who_came_in_the_middle_is_told_of_the_gap_until_the_final() -> None:
    captions = folded(delta(" Morgen", n=12))
    assert captions["a", "de"].gap
    captions.fold(final("Guten Morgen"))
    assert not captions["a", "de"].gap


def test_a_failed_caption_has_no_text() -> None:
    failed = Failed(seq=1, id="a", rev=1, ord=1, lang="de", code="timeout", retry=True)
    caption = folded(delta("Gu", n=2), failed)["a", "de"]
    assert (caption.state, caption.text) == ("failed", "")


@pytest.mark.parametrize(
    ("lang", "states"), [("de", ("cancelled", "open")), (None, ("cancelled", "cancelled"))]
)
def test_a_cancel_ends_one_language_or_all_that_had_not_ended(
    lang: str | None, states: tuple[str, str]
) -> None:
    captions = folded(
        final("Fertig", id="other"),
        delta("Gu", n=2),
        msgspec.structs.replace(delta("Bo", n=2), lang="fr"),
        Cancelled(seq=2, id="a", rev=1, lang=lang, was="running"),
    )
    assert (captions["a", "de"].state, captions["a", "fr"].state) == states
    assert captions["other", "de"].text == "Fertig"


def test_a_snapshot_tells_how_everything_stands() -> None:
    lines = (
        Line(lang="de", state="running", text="Gu", draft="ten"),
        Line(lang="fr", state="final", text="Bonjour", by="mt"),
        Line(lang="it", state="failed", text="Buo"),
    )
    snapshot = Snapshot(id="a", rev=1, ord=1, lang="en", text="hi", final=True, lines=lines)
    captions = folded(snapshot, Tick(seq=1))
    assert [captions["a", lang].text for lang in ("de", "fr", "it")] == ["Guten", "Bonjour", ""]
    assert [captions["a", lang].state for lang in ("de", "fr", "it")] == ["open", "final", "failed"]


def test_only_the_newest_ended_captions_are_kept() -> None:
    captions = Captions(kept=2)
    captions.fold(delta("Gu", n=2))
    for id in ("b", "c", "d"):
        captions.fold(final(id, id=id))
    kept = [captions[id, "de"].text for id in ("a", "b", "c", "d")]
    assert kept == ["Gu", "", "", "d"], "what still grows is never forgotten"


chunks = st.lists(
    st.builds(Chunk, st.text("ab ", max_size=3), reset=st.sampled_from([False, False, True])),
    max_size=4,
)


@given(partials=st.lists(chunks, max_size=4), last=chunks, steps=st.integers(0, 3))
def test_ignoring_every_ephemeral_event_leads_to_the_same_text(
    partials: list[list[Chunk]], last: list[Chunk], steps: int
) -> None:
    """Rule 2, on what a gateway really sends; and on the way there both sides show the same."""
    caption = Caption("a", "de")
    shown = Captions()
    events: list[ServerMessage] = []

    def show(event: ServerMessage | None) -> None:
        if event is not None:
            events.append(event)
            shown.fold(event)
        assert shown["a", "de"].stable == caption.stable
        assert shown["a", "de"].draft == caption.draft
        assert not shown["a", "de"].gap

    for rev, output in enumerate([*partials, last], 1):
        partial = rev <= len(partials)
        caption.queue(f"job{rev}", rev, "text", partial=partial, now=0)
        caption.start(0)
        for chunk in output:
            show(caption.feed(chunk, 0))
        if partial:
            show(caption.rest())
    text = caption.text
    caption.finish(text, "mt", 0)
    show(final(text))

    assert folded(*(e for e in events if isinstance(e, DURABLE)))["a", "de"].text == text
    merged: list[ServerMessage] = []
    for event in events:  # a slow reader gets several deltas as one
        newest = merged[-1] if merged else None
        if steps and isinstance(newest, Delta) and isinstance(event, Delta):
            merged[-1] = merge(newest, event)
            steps -= 1
        else:
            merged.append(event)
    assert folded(*merged)["a", "de"] == shown["a", "de"]
