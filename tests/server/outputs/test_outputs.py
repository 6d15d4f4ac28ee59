"""Outputs of rooms, over real connections to a receiver that fails now and then."""

from __future__ import annotations

import base64
import json
import ssl
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2 as httpx
import pytest
from prometheus_client import CollectorRegistry

from gateway.core.session.connect_request import ConnectRequest
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.server.outputs import sender as sender_module
from gateway.server.runtime import drain as drain_module
from gateway.server.runtime.hub import HubPhase
from gateway.settings.catalogue import OutputTable
from tests.support.live import Live, running, until
from tests.support.receiver import Received, Receiver
from tests.support.talk import Talk, talk

SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()


@pytest.fixture(autouse=True)
def impatient_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat attempts at once."""
    monkeypatch.setattr(sender_module, "FIRST_S", 0.001)
    monkeypatch.setattr(sender_module, "LONGEST_S", 0.01)


@asynccontextmanager
async def speaking(
    receiver: Receiver, limits: Limits | None = None, **options: Any
) -> AsyncIterator[tuple[Live, Talk]]:
    """Run a gateway with one output for the room of a speaker."""
    fields = {"kind": "webhook", "room": "*", "secret_key": SECRET, **options}
    async with running(limits=limits) as live:
        live.state.outputs.add((OutputTable(url=receiver.url, **fields),))
        async with talk(live, "?room=demo&from=en&to=de") as speaker:
            yield live, speaker


async def say(speaker: Talk, *texts: str) -> None:
    for text in texts:
        await speaker.send({"type": "say", "text": text})
        await speaker.until("final")


def events(received: Received) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(received.body)["data"]["events"]
    return found


def metric(live: Live, name: str, **labels: str) -> float:
    registry: CollectorRegistry = live.state.metrics.registry
    value = registry.get_sample_value(name, {"output": "webhook", **labels})
    assert value is not None, name
    return value


async def test_a_webhook_is_sent_every_durable_event_once_and_in_order() -> None:
    from standardwebhooks import Webhook

    async with Receiver() as receiver, speaking(receiver) as (live, speaker):
        await say(speaker, "one", "subtitles, 字幕")
        await until(lambda: metric(live, "gateway_output_events_total", outcome="delivered") == 4)
        sent = [event for received in receiver.posts for event in events(received)]
        assert [event["seq"] for event in sent] == [1, 2, 3, 4]
        assert [event["text"] for event in sent] == [
            "one",
            "[de] one",
            "subtitles, 字幕",
            "[de] subtitles, 字幕",
        ]
        for received in receiver.posts:
            message = Webhook(SECRET).verify(received.body, received.headers)
            assert message["type"] == "room.events" and message["data"]["room"] == "demo"
        assert metric(live, "gateway_output_behind") == 0


async def test_a_receiver_that_fails_is_tried_again_with_the_same_request() -> None:
    async with Receiver(500, 0, 429, 302) as receiver, speaking(receiver) as (live, speaker):
        await say(speaker, "one")
        await until(lambda: metric(live, "gateway_output_behind") == 0)
        first = receiver.posts[:5]
        assert len({(one.body, one.headers["webhook-id"]) for one in first}) == 1
        assert metric(live, "gateway_output_failures_total") == 4


async def test_a_receiver_that_is_away_for_a_while_misses_nothing() -> None:
    async with Receiver() as receiver, speaking(receiver) as (live, speaker):
        await receiver.stop()
        await say(speaker, *(f"line {n}" for n in range(20)))
        await until(lambda: metric(live, "gateway_output_failures_total") > 2)
        assert metric(live, "gateway_output_behind") == 40
        await receiver.start()
        await until(lambda: metric(live, "gateway_output_behind") == 0)
        sent = [event["seq"] for received in receiver.posts for event in events(received)]
        assert sent == list(range(1, 41))


async def test_cookies_of_a_receiver_are_never_kept_or_sent_back() -> None:
    cookies = [f"Set-Cookie: c{n}={'x' * 100}; Path=/" for n in range(20)]
    async with Receiver(headers=cookies) as receiver, speaking(receiver) as (live, speaker):
        await say(speaker, "one")
        await receiver.take(1)
        await say(speaker, "two")
        await until(lambda: metric(live, "gateway_output_behind") == 0)
        assert len(receiver.posts) > 1
        assert all("cookie" not in one.headers for one in receiver.posts)


async def test_the_first_event_of_a_room_reads_no_certificates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Receiver() as receiver, speaking(receiver) as (_, speaker):
        monkeypatch.setattr(ssl, "SSLContext", None)
        await say(speaker, "one")
        await receiver.take(1)


async def test_a_slow_receiver_is_sent_fewer_and_larger_requests() -> None:
    async with Receiver() as receiver, speaking(receiver) as (live, speaker):
        receiver.hold.clear()
        await say(speaker, *(f"line {n}" for n in range(20)))
        receiver.hold.set()
        await until(lambda: metric(live, "gateway_output_behind") == 0)
        assert len(receiver.posts) == 2


async def test_events_that_the_log_has_dropped_meanwhile_are_counted_as_lost() -> None:
    async with Receiver() as receiver, speaking(receiver, Limits(log=10)) as (live, speaker):
        receiver.hold.clear()
        await say(speaker, *(f"line {n}" for n in range(20)))
        receiver.hold.set()
        await until(lambda: metric(live, "gateway_output_behind") == 0)
        lost = metric(live, "gateway_output_events_total", outcome="lost")
        delivered = metric(live, "gateway_output_events_total", outcome="delivered")
        assert lost and delivered and lost + delivered == 40


async def test_a_receiver_that_is_gone_is_sent_nothing_more_in_any_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Receiver(410) as receiver, speaking(receiver) as (live, speaker):
        assert metric(live, "gateway_output_gone") == 0
        await say(speaker, "one")
        await until(lambda: metric(live, "gateway_output_gone") == 1)
        await say(speaker, "two")
        async with talk(live, "?room=board&from=en&to=de") as other:
            await say(other, "three")
        await until(lambda: not len(live.state.outputs._tasks._tasks))
        assert len(receiver.posts) == 1
        assert metric(live, "gateway_output_behind") == 0
        assert metric(live, "gateway_output_failures_total") == 1
    assert len([line for line in caplog.records if "gone (410)" in line.getMessage()]) == 1


async def test_a_slow_receiver_of_many_rooms_does_not_hold_up_another_one() -> None:
    fields: dict[str, Any] = {"kind": "webhook", "secret_key": SECRET}
    async with Receiver() as slow, Receiver() as quick, running() as live:
        slow.hold.clear()
        tables = (
            OutputTable(url=slow.url, room="slow-*", **fields),
            OutputTable(url=quick.url, room="quick", **fields),
        )
        live.state.outputs.add(tables)
        for n in range(100):  # the connections that httpx allows unless told otherwise
            open_and_say(live, f"slow-{n}")
        await slow.take(100)
        open_and_say(live, "quick")
        await quick.take(1)
        assert metric(live, "gateway_output_behind") >= 100, "of both, which have one name"
        # The library's own 5 s would end an attempt before `ATTEMPT_S`.
        assert live.state.outputs._client.timeout == httpx.Timeout(None)
        slow.hold.set()


def open_and_say(live: Live, room: str) -> None:
    """Say a line in a room without a socket."""
    session = live.hub.open(ConnectRequest(room=room, source="en", targets=("de",)))
    live.hub.receive(session, '{"type":"say","text":"hello"}')


async def test_a_receiver_that_fails_for_too_long_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender_module, "GIVE_UP_S", 0.0)
    async with Receiver(*[500] * 9) as receiver, speaking(receiver) as (live, speaker):
        await say(speaker, "one")
        await until(lambda: metric(live, "gateway_output_events_total", outcome="lost") > 0)


async def test_a_room_that_is_deleted_is_not_sent_any_more() -> None:
    async with Receiver(*[500] * 9_999) as receiver, speaking(receiver) as (live, speaker):
        await say(speaker, "one")
        await receiver.take(1)
        await live.hub.forget("demo")
        await until(lambda: not len(live.state.outputs._tasks._tasks))
        assert metric(live, "gateway_output_behind") == 0


async def test_private_rooms_and_rooms_of_other_names_have_no_outputs() -> None:
    async with Receiver() as receiver, speaking(receiver, room="board*") as (live, speaker):
        await say(speaker, "one")
        async with talk(live, "?from=en&to=de") as private:
            await say(private, "two")
        async with talk(live, "?room=board-7&from=en&to=de") as board:
            await say(board, "three")
            await until(lambda: metric(live, "gateway_output_behind") == 0 and receiver.posts != [])
        rooms = {json.loads(received.body)["data"]["room"] for received in receiver.posts}
        assert rooms == {"board-7"}


async def test_youtube_is_sent_captions_with_times_and_numbers() -> None:
    async with Receiver(500) as receiver:
        output: dict[str, Any] = {"kind": "youtube", "room": "demo", "secret_key": None, "to": "fr"}
        async with speaking(receiver, **output) as (_, speaker):
            await say(speaker, "one")
            await receiver.take(2)
            await say(speaker, "two\nlines")
            first, again, second = await receiver.take(3)
    assert (first.path, again.path, second.path) == ("/in?seq=1", "/in?seq=1", "/in?seq=2")
    assert first.body == again.body and first.headers["content-type"].startswith("text/plain")
    time, text, end = second.body.decode().split("\n")
    assert len(time) == len("2012-12-24T00:00:06.873") and time[10] == "T"
    assert (text, end) == ("[fr] two lines", "")


async def test_zoom_is_sent_captions_with_a_language_and_numbers_go_on_over_a_restart() -> None:
    async with Receiver(number="41") as receiver:
        output: dict[str, Any] = {"kind": "zoom", "room": "demo", "secret_key": None}
        async with speaking(receiver, to="ja", **output) as (_, speaker):
            await say(speaker, "one")
            (japanese,) = await receiver.take(1)
        async with speaking(receiver, **output) as (_, speaker):
            await say(speaker, "two")
            original = (await receiver.take(2))[-1]
    assert receiver.received[0].path == "/in/seq"
    assert (japanese.path, japanese.body.decode()) == ("/in?seq=42&lang=ja-JP", "[ja] one")
    assert (original.path, original.body) == ("/in?seq=42", b"two")


@pytest.mark.parametrize("number", ["-7", "x", ""])
async def test_a_number_that_no_request_has_counts_as_none(number: str) -> None:
    async with Receiver(number=number) as receiver:
        async with speaking(receiver, kind="zoom", room="demo", secret_key=None) as (_, speaker):
            await say(speaker, "one")
            (sent,) = await receiver.take(1)
    assert sent.path == "/in?seq=1"


async def test_an_output_reads_its_language_only_while_somebody_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender_module, "IDLE_S", 0.05)
    async with Receiver() as receiver, speaking(receiver, to="fr") as (live, speaker):
        await say(speaker, "one")
        await until(lambda: any("[fr] one" in str(events(post)) for post in receiver.posts))
        await until(lambda: len(live.hub.sessions) == 1)
        await say(speaker, "two")
        await until(lambda: any("[fr] two" in str(events(post)) for post in receiver.posts))


async def test_an_output_whose_language_the_engine_lacks_goes_on_without_it() -> None:
    async with Receiver() as receiver, speaking(receiver, to="cy") as (_, speaker):
        await say(speaker, "one")
        await receiver.take(1)


async def test_what_is_decided_at_the_end_of_the_gateway_is_delivered() -> None:
    async with Receiver() as receiver:
        async with speaking(receiver) as (live, speaker):
            receiver.hold.clear()
            await say(speaker, "one", "two")
            receiver.hold.set()
        sent = [event["seq"] for received in receiver.posts for event in events(received)]
        assert sent == [1, 2, 3, 4]


@pytest.mark.parametrize("in_flight", [False, True])
async def test_an_output_holds_up_no_stop_once_its_last_caption_is_made(
    in_flight: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_module, "OVERLAP_S", 3_600.0)  # clients would be waited for
    engine = ScriptedEngine()
    async with Receiver() as receiver, running(engine, drain_s=3_600.0) as live:
        live.state.outputs.add((OutputTable(url=receiver.url, kind="webhook", room="*", to="ja"),))
        async with talk(live, "?room=demo&from=en") as speaker:
            await speaker.send({"type": "say", "text": "one"})
            await receiver.take(1)
            await until(lambda: metric(live, "gateway_output_behind") == 0)
            if in_flight:
                engine.hold()
                await speaker.send({"type": "say", "text": "two"})
                await until(lambda: engine.unfinished == 1)
            await speaker.send({"type": "bye"})  # its socket stays until nothing is in flight
            live.server.should_exit = True
            await until(live.hub.stopping)
            engine.release()
            await until(lambda: live.hub.phase is HubPhase.CLOSED)
        await until(lambda: "[ja] two" in texts(receiver) or not in_flight)
        assert "[ja] one" in texts(receiver)


def texts(receiver: Receiver) -> list[str]:
    return [event.get("text", "") for received in receiver.posts for event in events(received)]


async def test_a_room_that_makes_space_is_not_kept_by_its_output() -> None:
    async with Receiver() as receiver, speaking(receiver) as (live, speaker):
        await say(speaker, "one")
        await until(lambda: metric(live, "gateway_output_behind") == 0)
        room = weakref.ref(live.hub.rooms["demo"])
        await speaker.send({"type": "bye"})
        await speaker.closed()
        await live.hub.forget("demo")
        await until(lambda: room() is None)
        assert metric(live, "gateway_output_behind") == 0
