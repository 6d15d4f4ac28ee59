"""Sockets that break and come back, against a real gateway on a real port."""

from __future__ import annotations

import asyncio
import shutil
import socket as sockets
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2 as httpx
import pytest

from gateway.auth.signed_tokens import Signer
from gateway.core.session.connect_request import ConnectRequest
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from gateway.storage.base import StoreFault
from gateway.storage.sqlite.store import SqliteStore
from tests.support.live import Live, running, until
from tests.support.talk import Talk, talk

Event = dict[str, Any]


def back(welcome: Event, seq: int | None = None, *more: str) -> str:
    """Return the query of a client that resumes after ``seq``."""
    query = [f"?resume={quote(welcome['resume'])}"]
    if seq is not None:
        query.append(f"epoch={welcome['epoch']}&seq={seq}")
    return "&".join((*query, *more))


async def reset(live: Live, client: Talk) -> None:
    """Abort a connection, so that the server notices it."""
    raw = client.ws.transport.get_extra_info("socket")
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    before = len(live.hub.sessions)
    client.ws.transport.abort()
    await until(lambda: len(live.hub.sessions) < before)


def numbers(events: list[Event]) -> list[int]:
    return [event["seq"] for event in events if event["type"] != "welcome" and "seq" in event]


async def test_a_speaker_that_reconnects_in_mid_caption_gets_the_rest_as_its_own() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine) as live:
        async with talk(live, "?room=a&to=de") as client:
            welcome = await client.next()
            await client.send({"type": "say", "id": "x", "text": "one two three"})
            source = (await client.until("source"))[-1]
            await engine.step()
            await client.until("delta")
            await reset(live, client)
        assert engine.unfinished == 1 and live.hub.rooms["a"].attendance.away
        async with talk(live, back(welcome, source["seq"])) as again:
            hello = await again.next()
            assert hello["session"] == welcome["session"]
            assert hello["resumed"] == {"ok": True, "replayed": 0}
            assert hello["seq"] == source["seq"]
            shot = await again.next()
            assert shot["type"] == "snapshot" and shot["lines"][0]["state"] == "running"
            await again.send({"type": "say", "id": "x", "rev": 1, "text": "one two three"})
            assert (await again.until("ack"))[-1]["rev"] == 1
            engine.release()
            final = (await again.until("final"))[-1]
            assert final["seq"] == source["seq"] + 1
            assert final["text"].startswith(shot["lines"][0]["text"])
            assert live.hub.resumed == {True: 1}
        assert not engine.aborted


async def test_a_resumed_reader_gets_each_missed_event_of_its_languages_once() -> None:
    async with running() as live, talk(live, "?room=a&to=de,fr") as speaker:
        async with talk(live, "?room=a&to=de&role=view") as reader:
            welcome = await reader.next()
            await speaker.send("one")
            seen = numbers(await reader.until("final"))
            await reset(live, reader)
        for text in ("two", "three"):
            await speaker.send(text)
            for _ in "de", "fr":
                await speaker.until("final")
        async with talk(live, back(welcome, seen[-1])) as reader:
            hello = await reader.next()
            assert hello["resumed"] == {"ok": True, "replayed": 4}
            missed = [await reader.next() for _ in range(4)]
            assert [event["type"] for event in missed] == ["source", "final"] * 2
            assert {event.get("lang") for event in missed} == {"en", "de"}
            await speaker.send("four")
            told = seen + numbers(missed) + numbers(await reader.until("final"))
            assert told == sorted(set(told))


async def test_a_client_that_does_not_come_back_within_the_grace_period_has_left() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine, Limits(grace_s=0.05)) as live, talk(live, "?room=a") as other:
        async with talk(live, "?room=a&to=de") as client:
            welcome = await client.next()
            await client.send("one two three")
            await until(lambda: engine.unfinished == 1)
            await reset(live, client)
        await other.until("cancelled")
        assert engine.unfinished == 0
        async with talk(live, back(welcome, 0)) as client:
            hello = await client.next()
            assert hello["session"] == welcome["session"]
            assert (await client.until("cancelled"))[-1]["was"] == "running"


async def test_the_second_of_two_sockets_with_one_token_stays() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine) as live, talk(live, "?to=de") as first:
        welcome = await first.next()
        await first.send("one two three")
        await until(lambda: engine.unfinished == 1)
        async with talk(live, back(welcome)) as second:
            hello = await second.next()
            assert (hello["room"], hello["session"]) == (welcome["room"], welcome["session"])
            assert "resumed" not in hello
            assert (await first.closed())[0] == CloseCode.REPLACED
            engine.release()
            assert (await second.until("final"))[-1]["text"] == "[de] one two three"
            await until(lambda: len(live.hub.sessions) == 1)
            assert list(live.hub.sessions) == [welcome["session"]]
        assert not engine.aborted


async def test_an_attempt_that_is_read_after_a_later_one_does_not_take_its_place() -> None:
    async with running() as live, talk(live, "?room=a&to=de") as first:
        welcome = await first.next()
        async with talk(live, back(welcome, 0, "attempt=2")) as newest:
            renewed = await newest.next()
            assert (await first.closed())[0] == CloseCode.REPLACED
            async with talk(live, back(welcome, 0, "attempt=1")) as late:
                error = await late.next()
                assert (error["code"], error["retry"]) == ("busy", True)
                assert (await late.closed())[0] == CloseCode.TOO_MANY
            await newest.send("one")
            await newest.until("final")
            # A program that was started again counts anew, and shows the newest token.
            async with talk(live, back(renewed, 0, "attempt=1")) as again:
                assert (await again.next())["session"] == welcome["session"]
                assert (await newest.closed())[0] == CloseCode.REPLACED


async def test_the_last_of_several_attempts_without_a_number_stays() -> None:
    async with running() as live, talk(live, "?room=a&to=de") as first:
        welcome = await first.next()
        async with talk(live, back(welcome, 0, "attempt=7")) as second:
            token = await second.next()
            async with talk(live, back(token, 0)) as third:
                await third.next()
                async with talk(live, back(welcome, 0)) as fourth:
                    assert (await fourth.next())["type"] == "welcome"
                    assert (await third.closed())[0] == CloseCode.REPLACED


@pytest.mark.parametrize("attempt", ["-1", "x", "1" * 16, ""])
async def test_an_attempt_that_is_no_number_is_explained(attempt: str) -> None:
    async with running() as live, talk(live, f"?room=a&attempt={attempt}") as client:
        error = await client.next()
        assert error["code"] == "bad_frame" and "attempt" in error["msg"]


async def test_a_resume_beyond_the_log_says_so_and_names_the_transcript() -> None:
    async with running(limits=Limits(log=4)) as live, talk(live, "?room=a&to=de") as speaker:
        welcome = await speaker.next()
        for text in ("one", "two", "three"):
            await speaker.send(text)
            await speaker.until("final")
        async with talk(live, back(welcome, 0)) as client:
            hello = await client.next()
            assert hello["resumed"] == {
                "ok": False,
                "replayed": 4,
                "from": 3,
                "transcript": "/v1/rooms/a/transcript.json",
            }
            events = [await client.next() for _ in range(4)]
            assert numbers(events) == [3, 4, 5, 6]


async def test_a_client_can_resume_its_private_room_until_it_leaves() -> None:
    async with running() as live:
        async with talk(live, "?to=de") as client:
            welcome = await client.next()
            await client.send("one")
            seen = numbers(await client.until("final"))
            await reset(live, client)
        async with talk(live, back(welcome, seen[0])) as client:
            assert (await client.next())["resumed"] == {"ok": True, "replayed": 1}
            assert (await client.next())["text"] == "[de] one"
        await until(lambda: not live.hub.rooms)
        async with talk(live, back(welcome, seen[0])) as client:
            assert (await client.next())["code"] == "not_found"
            assert (await client.closed())[0] == CloseCode.NO_SUCH_ROOM


async def test_a_private_room_in_which_nothing_was_said_is_not_kept() -> None:
    async with running() as live:
        async with talk(live, "?to=de") as client:
            await client.next()
            await reset(live, client)
        assert not live.hub.rooms


async def test_an_invalid_token_is_ignored_if_the_room_is_named() -> None:
    async with running() as live:
        async with talk(live, "?resume=nonsense") as client:
            error = await client.next()
            assert (error["code"], error["fatal"]) == ("unauthenticated", True)
            assert (await client.closed())[0] == CloseCode.UNAUTHENTICATED
        async with talk(live, "?room=a") as other:
            welcome = await other.next()
            await other.send("one")
            await other.until("source")
            query = f"?resume=nonsense&room=a&epoch={welcome['epoch']}&seq=0"
            async with talk(live, query) as client:
                hello = await client.next()
                assert hello["resumed"] == {"ok": True, "replayed": 1}
                assert hello["session"] != welcome["session"]
            async with talk(live, back(welcome, None, "room=b")) as client:
                hello = await client.next()
                assert (hello["room"], hello["session"] == welcome["session"]) == ("b", False)


async def test_the_query_overrides_the_resume_token() -> None:
    async with running() as live:
        async with talk(live, "?room=a&to=de&role=view&view=final&speaker=Ann") as client:
            welcome = await client.next()
        async with talk(live, back(welcome)) as client:
            await client.next()
            (session,) = live.hub.sessions.values()
            was = (
                session.member.role,
                session.member.langs,
                session.member.view,
                session.member.speaker,
            )
            assert was == ("view", ("de",), "final", "Ann")
        async with talk(live, back(welcome, None, "to=fr&role=speak&view=live")) as client:
            await client.next()
            (session,) = live.hub.sessions.values()
            assert (session.member.role, session.member.langs, session.member.view) == (
                "speak",
                ("fr",),
                "live",
            )


async def test_a_number_without_its_epoch_is_a_bad_query() -> None:
    async with running() as live:
        for query in ("?room=a&seq=3", "?room=a&epoch=e", "?room=a&epoch=e&seq=-1"):
            async with talk(live, query) as client:
                assert (await client.next())["code"] == "bad_frame"
                assert (await client.closed())[0] == CloseCode.PROTOCOL_ERROR


async def test_a_long_replay_is_sent_in_pages_and_live_events_follow() -> None:
    async with running(limits=Limits(rate=1e6, burst=10_000, outbox_bytes=2**24)) as live:
        async with talk(live, "?room=a&to=en") as speaker:
            welcome = await speaker.next()
            for n in range(1_500):
                await speaker.send(f"{n} " + "words " * 20)
            while numbers([await speaker.next()]) != [3_000]:
                pass
            async with talk(live, back(welcome, 0, "room=a&to=en")) as client:
                hello = await client.next()
                assert hello["resumed"] == {"ok": True, "replayed": 3_000}
                events = [await client.next() for _ in range(3_000)]
                assert numbers(events) == list(range(1, 3_001))
                await client.send("and on")
                assert numbers(await client.until("final")) == [3_001, 3_002]


async def test_after_a_planned_restart_a_client_resumes_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rooms.db"
    async with running(store=SqliteStore(path, Limits())) as live:
        async with talk(live, "?room=a&to=de") as client:
            welcome = await client.next()
            await client.send({"type": "say", "id": "x", "text": "one"})
            seen = numbers(await client.until("final"))
    async with running(store=SqliteStore(path, Limits())) as live:
        async with talk(live, back(welcome, seen[0])) as client:
            hello = await client.next()
            assert hello["session"] == welcome["session"]
            assert hello["resumed"] == {"ok": True, "replayed": 1}
            assert (await client.next())["text"] == "[de] one"
            await client.send({"type": "say", "id": "x", "rev": 1, "text": "one"})
            assert (await client.next())["type"] == "ack"


async def test_after_a_crash_a_client_that_saw_only_stored_events_resumes(tmp_path: Path) -> None:
    path = tmp_path / "rooms.db"
    kept = SqliteStore(path, Limits())
    async with running(store=kept) as live:
        async with talk(live, "?room=a&to=de") as client:
            welcome = await client.next()
            await client.send("one")
            seen = numbers(await client.until("final"))
        await kept.flush()
        shutil.copy(path, tmp_path / "crashed.db")  # as a process leaves it that is killed
        shutil.copy(f"{path}-wal", tmp_path / "crashed.db-wal")
    async with running(store=SqliteStore(tmp_path / "crashed.db", Limits())) as live:
        for seq, ok in ((seen[0], True), (seen[-1], True), (seen[-1] + 1, False)):
            async with talk(live, back(welcome, seq)) as client:
                hello = await client.next()
                assert hello["epoch"] != welcome["epoch"]
                assert hello["resumed"]["ok"] is ok
                if ok:
                    assert (hello["seq"], hello["resumed"]["replayed"]) == (seq, 2 - seq)


async def test_processes_with_one_signing_key_accept_each_others_tokens() -> None:
    authenticator = Authenticator(Limits(), signer=Signer(b"0123456789abcdef" * 2))
    async with running(authenticator=authenticator) as live, talk(live, "?room=a") as client:
        welcome = await client.next()
    authenticator = Authenticator(Limits(), signer=Signer(b"0123456789abcdef" * 2))
    async with running(authenticator=authenticator) as live, talk(live, back(welcome, 0)) as client:
        hello = await client.next()
        assert hello["session"] == welcome["session"]
        assert hello["resumed"]["ok"] is False  # it is another history


async def test_if_the_store_cannot_keep_the_signing_key_tokens_work_in_this_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Keyless(SqliteStore):
        async def key(self) -> bytes:
            raise StoreFault("The disk is full.")

    async with running(store=Keyless(tmp_path / "rooms.db", Limits())) as live:
        async with talk(live, "?room=a") as client:
            welcome = await client.next()
        async with talk(live, back(welcome)) as client:
            assert (await client.next())["session"] == welcome["session"]
    assert "will not outlive this process: The disk is full." in caplog.text


async def test_a_replaced_socket_is_closed_even_if_it_does_not_read() -> None:
    async with running() as live, talk(live, "?room=a&to=en") as first:
        welcome = await first.next()
        (session,) = live.hub.sessions.values()
        first.ws.transport.pause_reading()
        speaker = live.hub.open(ConnectRequest(room="a"))
        while not session.outbox.bytes:  # until the kernel takes no more
            live.hub.receive(speaker, "words " * 300)
            speaker.outbox.take()
            speaker.member.in_flight.utterances.clear()
            await asyncio.sleep(0)
        # Without a bound on its queue, since a client with a full one does not see the close frame.
        async with talk(live, back(welcome), max_queue=None) as second:
            assert (await second.next())["session"] == welcome["session"]
            first.ws.transport.resume_reading()
            assert (await first.closed())[0] == CloseCode.REPLACED
        live.hub.close(speaker)


async def test_operators_see_who_is_away_how_many_came_back_and_what_logs_take() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine) as live:
        async with talk(live, "?room=a&to=de") as client:
            welcome = await client.next()
            await client.send("one")
            await client.until("source")
            await reset(live, client)
        assert value(await metrics(live), "gateway_sessions_away") == 1
        assert value(await metrics(live), "gateway_log_bytes") > 300
        async with talk(live, back(welcome, 0)) as client:
            await client.next()
            page = await metrics(live)
            assert value(page, "gateway_sessions_away") == 0
            assert value(page, 'gateway_resumed_total{ok="true"}') == 1
            assert value(page, 'gateway_resumed_total{ok="false"}') == 0


async def metrics(live: Live) -> str:
    async with httpx.AsyncClient(base_url=live.http) as client:
        return (await client.get("/metrics")).text


def value(page: str, name: str) -> float:
    (line,) = (line for line in page.splitlines() if line.startswith(name + " "))
    return float(line.split()[-1])
