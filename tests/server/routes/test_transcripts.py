"""Transcripts over HTTP, on real connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator

import httpx2 as httpx
import pytest

from gateway.core.session.connect_request import ConnectRequest
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.server.routes import transcripts
from gateway.server.routes.transcripts import WAITING, TranscriptWriter
from tests.support.history import History
from tests.support.live import Live, running, until
from tests.support.talk import talk


@contextlib.asynccontextmanager
async def meeting(
    history: History | None = None, limits: Limits | None = None
) -> AsyncIterator[tuple[httpx.AsyncClient, Live]]:
    """Run a gateway with a room ``demo`` that has these captions."""
    if history is None:
        history = History()
        history.say("u1", "Good morning.", at=4.0, speaker="Ann")
        history.caption("u1", "de", "Guten Morgen.")
    async with running(limits=limits) as live:
        session = live.hub.open(ConnectRequest(room="demo"))
        session.room.log = history.log
        base = live.http + "/v1/rooms/"
        async with httpx.AsyncClient(base_url=base) as client:
            yield client, live
        live.hub.close(session)


async def test_json_says_when_the_room_began_in_seconds_of_the_unix_clock() -> None:
    async with running() as live:
        live.hub.wall = lambda: live.hub.now() + 1_800_000_000.0
        session = live.hub.open(ConnectRequest(room="demo"))
        began = session.room.log.began
        async with httpx.AsyncClient(base_url=live.http) as client:
            body = (await client.get("/v1/rooms/demo/transcript.json")).json()
        assert abs(body["began"] - (1_800_000_000 + began)) <= 1
        live.hub.close(session)


@pytest.mark.parametrize(
    ("format", "media", "begins"),
    [
        ("vtt", "text/vtt; charset=utf-8", "WEBVTT\n\nu1\n"),
        ("srt", "application/x-subrip; charset=utf-8", "1\n00:00:0"),
        ("txt", "text/plain; charset=utf-8", "[00:00:0"),
        ("json", "application/json", '{"room":"demo","epoch":'),
    ],
)
async def test_a_transcript_has_the_media_type_and_file_name_of_its_format(
    format: str, media: str, begins: str
) -> None:
    async with meeting() as (client, _):
        answer = await client.get(f"demo/transcript.{format}?lang=de")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == media
        name = f'inline; filename="demo.de.{format}"'
        assert answer.headers["content-disposition"] == name
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert int(answer.headers["content-length"]) == len(answer.content)
        text = answer.content.decode()
        assert text.startswith(begins) and "Guten Morgen." in text


@pytest.mark.parametrize(
    ("query", "lines", "name"),
    [
        ("", "Good morning.", "demo.txt"),
        ("?lang=", "Good morning.", "demo.txt"),
        ("?lang=de", "Guten Morgen.", "demo.de.txt"),
        ("?lang=DE-at", "Guten Morgen.", "demo.de-AT.txt"),
        ("?lang=de&bilingual=0", "Guten Morgen.", "demo.de.txt"),
        (
            "?lang=de&bilingual=1",
            "Good morning.\n           [de] Guten Morgen.",
            "demo.original+de.txt",
        ),
        ("?lang=de,en", "Guten Morgen.\n           [en] Good morning.", "demo.de+en.txt"),
        ("?lang=de&lang=en,de", "Guten Morgen.\n           [en] Good morning.", "demo.de+en.txt"),
        ("?lang=fr", "[en] Good morning.", "demo.fr.txt"),
    ],
)
async def test_a_transcript_has_the_languages_of_the_request_or_the_original(
    query: str, lines: str, name: str
) -> None:
    async with meeting() as (client, _):
        answer = await client.get(f"demo/transcript.txt{query}")
        assert answer.text == f"[00:00:03] Ann: {lines}\n"
        assert f'"{name}"' in answer.headers["content-disposition"]


async def test_json_allows_as_many_languages_as_a_socket() -> None:
    async with meeting(limits=Limits(targets=3)) as (client, _):
        body = (await client.get("demo/transcript.json?lang=de,fr,es&bilingual=1")).json()
        assert body["languages"] == ["de", "fr", "es"]
        assert (await client.get("demo/transcript.json")).json()["languages"] == []
        answer = await client.get("demo/transcript.json?lang=de,fr,es,it")
        assert (answer.status_code, answer.json()["code"]) == (400, "too_many_targets")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("nobody/transcript.vtt", 404, "not_found"),
        ("no%20name/transcript.vtt", 404, "not_found"),
        ("demo/transcript.pdf", 400, "bad_frame"),
        ("demo/transcript.VTT", 400, "bad_frame"),
        ("demo/transcript.vtt?lang=nonsense!", 400, "lang_unsupported"),
        ("demo/transcript.vtt?lang=de,x", 400, "lang_unsupported"),
        ("demo/transcript.vtt?bilingual=1", 400, "bad_frame"),
        ("demo/transcript.vtt?lang=de,fr&bilingual=1", 400, "too_many_targets"),
        ("demo/transcript.srt?lang=de,fr,es", 400, "too_many_targets"),
        ("demo/transcript", 404, "not_found"),
    ],
)
async def test_a_bad_request_gets_a_status_a_code_and_a_reason(
    path: str, status: int, code: str
) -> None:
    async with meeting() as (client, _):
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.json()["error"]


async def test_the_private_room_of_a_socket_cannot_be_read() -> None:
    async with meeting() as (client, live):
        own = live.hub.open(ConnectRequest())
        assert own.room.name.startswith("~")
        answer = await client.get(f"{own.room.name}/transcript.txt")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        live.hub.close(own)


async def test_a_transcript_can_be_read_while_the_meeting_runs_and_after() -> None:
    async with (
        running() as live,
        httpx.AsyncClient(base_url=live.http + "/v1/rooms/") as client,
    ):
        async with talk(live, "?room=standup&from=en&to=de&speaker=Ann") as ann:
            await ann.send({"type": "say", "text": "good morning"})
            await ann.until("final")
            during = (await client.get("standup/transcript.txt?lang=de")).text
            assert during.endswith("Ann: [de] good morning\n")
        await until(lambda: not live.hub.sessions)
        assert (await client.get("standup/transcript.txt?lang=de")).text == during


async def test_a_transcript_is_written_off_the_event_loop() -> None:
    here = threading.get_ident()
    assert await TranscriptWriter().write(1, lambda: b"%d" % threading.get_ident()) != b"%d" % here


class Work:
    """A writing that lasts until it is released."""

    def __init__(self) -> None:
        self.begun = 0
        self._go = threading.Event()

    def __call__(self) -> bytes:
        self.begun += 1
        self._go.wait()
        return b"%d" % self.begun

    def release(self) -> None:
        self._go.set()


async def test_transcripts_are_written_one_at_a_time_and_a_limited_number_may_wait() -> None:
    writer = TranscriptWriter()
    work = Work()
    tasks = [asyncio.create_task(writer.write(n, work)) for n in range(WAITING)]
    await until(lambda: work.begun == 1)
    with pytest.raises(ClientFault) as fault:
        await writer.write("one more", work)
    assert fault.value.code is ErrorCode.BUSY
    assert work.begun == 1
    work.release()
    assert await asyncio.gather(*tasks) == [b"%d" % n for n in range(1, WAITING + 1)]
    assert await writer.write("again", lambda: b"again") == b"again"


async def test_requests_for_the_same_transcript_share_one_writing_and_may_disconnect() -> None:
    writer = TranscriptWriter()
    work = Work()
    tasks = [asyncio.create_task(writer.write("same", work)) for _ in range(3 * WAITING)]
    await until(lambda: work.begun == 1)
    tasks[0].cancel()
    work.release()
    written = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(written[0], asyncio.CancelledError)
    assert written[1:] == [b"1"] * (3 * WAITING - 1)
    assert await writer.write("same", work) == b"2"  # the result is not cached


async def test_a_full_queue_of_transcripts_is_answered_429_with_retry_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with meeting() as (client, _):
        monkeypatch.setattr(transcripts, "WAITING", 0)
        answer = await client.get("demo/transcript.vtt")
        assert (answer.status_code, answer.json()["code"]) == (429, "busy")
        assert answer.headers["retry-after"] == "1"


async def ask_and_not_read(live: Live) -> socket.socket:
    """Request a transcript on a connection with a small buffer, and do not read the answer."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(peer, ("127.0.0.1", int(live.http.rpartition(":")[2])))
    request = b"GET /v1/rooms/demo/transcript.json HTTP/1.1\r\nhost: x\r\n\r\n"
    await loop.sock_sendall(peer, request)
    return peer


def long() -> History:
    history = History()
    for n in range(1500):
        history.say(f"u{n}", "x" * 1000, at=float(n))
    return history


async def test_transcripts_of_clients_that_do_not_read_have_a_common_bound_on_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transcripts, "SENDING_BYTES", 3_000_000)
    async with meeting(long()) as (client, live):
        writer: TranscriptWriter = live.state.transcript_writer
        peers = []
        while writer.sending_bytes < transcripts.SENDING_BYTES:
            held = writer.sending_bytes
            peers.append(await ask_and_not_read(live))
            await until(lambda: writer.sending_bytes > held)  # noqa: B023  # awaited in this turn
        assert len(peers) == 2
        for connection in live.server.server_state.connections:
            waits = connection.transport.get_write_buffer_size()
            assert waits <= 3 * transcripts.CHUNK
        answer = await client.get("demo/transcript.json")
        assert (answer.status_code, answer.json()["code"]) == (429, "busy")
        peers.pop().close()
        await until(lambda: writer.sending_bytes < transcripts.SENDING_BYTES)
        answer = await client.get("demo/transcript.json")
        assert len(answer.json()["utterances"]) == 1500
        peers.pop().close()
        await until(lambda: not writer.sending_bytes)


async def test_a_client_that_reads_a_transcript_too_slowly_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transcripts, "SEND_S", 0.05)
    async with meeting(long()) as (_, live):
        writer: TranscriptWriter = live.state.transcript_writer
        with contextlib.closing(await ask_and_not_read(live)):
            await until(lambda: writer.sending_bytes > 0)
            await until(lambda: not writer.sending_bytes)


def test_a_transcript_that_is_sent_to_several_clients_is_counted_once() -> None:
    writer = TranscriptWriter()
    body = b"x" * 10
    with writer.sending(body):
        with writer.sending(body), writer.sending(b"y" * 5):
            assert writer.sending_bytes == 15
        assert writer.sending_bytes == 10
    assert writer.sending_bytes == 0
