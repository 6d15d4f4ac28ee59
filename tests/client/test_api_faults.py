"""The client against broken servers and on bad connections."""

from __future__ import annotations

import asyncio
import json
import ssl
from functools import partial
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection

import gateway.client.api
from gateway.client import ConnectionLost, NotTranslated, Refused, requests
from gateway.client.transport import Route, address
from gateway.errors import CloseCode
from gateway.protocol.messages import Failed
from gateway.protocol.notices import Presence, Tick
from tests.support.fake import WELCOME, ask, fake, send
from tests.support.live import Live, until
from tests.support.reverse_proxy import certificate
from tests.support.stream_server import StreamServer

connect = partial(gateway.client.connect, resume=False)
"""One socket and no other: what comes after one is in ``test_api_resume.py``."""

GOLDEN = Path(__file__).parents[1] / "golden" / "addresses.json"
ADDRESSES = json.loads(GOLDEN.read_text(encoding="utf-8"))
"""Addresses of gateways and of their sockets, which tests/web/client/address.test.js reads too."""


def test_a_route_shows_no_key_to_a_report_of_local_variables() -> None:
    options = {"additional_headers": {"Cookie": "session=secret"}}
    route = Route("ws://host", {}, "secret", "json", 1.0, options)
    assert "secret" not in repr(route)


async def test_the_address_of_a_gateway_can_be_written_in_several_ways() -> None:
    asked = []

    async def handler(socket: ServerConnection) -> None:
        assert socket.request is not None
        asked.append(socket.request.path)
        await send(socket, WELCOME)

    async with fake(handler) as url:
        place = url.removeprefix("ws://")
        for way in (place, f"http://{place}/", f"{url}/behind/proxy?key=1"):
            async with connect(way, room="r", to=("de", "fr"), speaker="Zoë & co"):
                pass
    query = "room=r&to=de,fr&speaker=Zo%C3%AB+%26+co"
    assert asked == [f"/v1/ws?{query}", f"/v1/ws?{query}", f"/behind/proxy/v1/ws?key=1&{query}"]


@pytest.mark.parametrize(("gateway", "socket"), ADDRESSES)
def test_the_clients_in_python_and_javascript_form_the_same_addresses(
    gateway: str, socket: str
) -> None:
    assert address(gateway, {}) == socket


@pytest.mark.parametrize("url", ["ftp://there", "ws://", "", "ws://there:port", "ws://me@there"])
async def test_an_invalid_address_raises_a_value_error(url: str) -> None:
    with pytest.raises(ValueError):
        async with connect(url):
            pass


async def test_presence_arrives_as_an_event() -> None:
    here = Presence(readers={"de": 3}, members=4, speakers=("Ann",))

    async def handler(socket: ServerConnection) -> None:
        await send(socket, WELCOME, here)

    async with fake(handler) as url, connect(url) as client:
        assert [event async for event in client] == [here]


async def test_events_of_unknown_types_are_skipped_and_unknown_fields_ignored() -> None:
    async def handler(socket: ServerConnection) -> None:
        await send(
            socket,
            WELCOME,
            {"type": "weather", "sunny": True},
            {"type": "tick", "seq": 7, "later": "version"},
        )

    async with fake(handler) as url, connect(url) as client:
        assert [event async for event in client] == [Tick(seq=7)]


@pytest.mark.parametrize("frame", ['{"type":"tick","seq":"seven"}', "no JSON"])
async def test_an_invalid_event_ends_the_connection_with_an_explanation(frame: str) -> None:
    async def handler(socket: ServerConnection) -> None:
        await send(socket, WELCOME)
        await socket.send(frame)
        await socket.wait_closed()

    async with fake(handler) as url, connect(url) as client:
        with pytest.raises(ConnectionLost, match="not an event"):
            await anext(client)


async def test_a_refused_connection_raises_the_reason() -> None:
    async def handler(socket: ServerConnection) -> None:
        error = {"type": "error", "code": "unauthenticated", "fatal": True, "retry": False}
        await send(socket, error | {"msg": "No key.", "hint": "Bring one."})
        await socket.close(4401)

    async with fake(handler) as url:
        with pytest.raises(Refused, match=r"No key\. Bring one\."):
            async with connect(url):
                pass


async def test_a_server_that_is_not_a_gateway_raises_an_explanation(live: Live) -> None:
    async def closes(socket: ServerConnection) -> None:
        await socket.close(4029, "Full.")

    async def chats(socket: ServerConnection) -> None:
        await send(socket, Tick(seq=1))

    async with fake(closes) as url:
        with pytest.raises(ConnectionLost, match=r"4029.*Full"):
            async with connect(url):
                pass
    async with fake(chats) as url:
        with pytest.raises(ConnectionError, match="not a gateway"):
            async with connect(url):
                pass
    with pytest.raises(ConnectionError, match="There is no gateway at"):
        async with connect(live.ws + "/healthz"):
            pass


async def test_a_refused_handshake_raises_the_sentence_of_a_fault_without_a_hint() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"error":"The gateway is full.","code":"busy","hint":null}'
        head = b"HTTP/1.1 503 Full\r\ncontent-length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        await writer.drain()

    async with StreamServer(refuse) as server:
        with pytest.raises(ConnectionError, match=r": The gateway is full\.$"):
            async with connect(f"ws://{server.address}"):
                pass


async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    pass


async def test_an_address_without_a_server_raises_an_explanation() -> None:
    async with StreamServer(nothing) as server:
        pass
    with pytest.raises(ConnectionError, match="Is it running"):
        async with connect(f"ws://{server.address}"):
            pass


async def test_a_failure_of_tls_is_not_reported_as_an_absent_gateway(
    live: Live, tmp_path: Path
) -> None:
    with pytest.raises(ConnectionError, match=r"does not speak TLS. Use ws:// instead"):
        async with connect(live.ws.replace("ws", "wss", 1)):
            pass
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_tls.load_cert_chain(certificate(tmp_path).both)
    async with StreamServer(nothing, ssl=server_tls) as server:
        with pytest.raises(
            ConnectionError, match=r"TLS .* failed: the certificate is not trusted \("
        ):
            async with connect(f"wss://{server.address}"):
                pass


@pytest.mark.parametrize(
    ("code", "reconnect"),
    [(code, code.reconnect) for code in CloseCode if code is not CloseCode.DONE]
    + [(1011, True), (1012, True)],
)
async def test_a_lost_connection_says_whether_to_reconnect(code: int, reconnect: bool) -> None:
    async def handler(socket: ServerConnection) -> None:
        await send(socket, WELCOME)
        await ask(socket)
        await socket.close(code, "Because.")

    async with fake(handler) as url, connect(url) as client:
        waiting = asyncio.create_task(client.caption("a", "de"))
        with pytest.raises(ConnectionLost, match=f"{code:d}.*Because"):
            await client.say("hello")
        for again in (waiting, anext(client), client.stats(), client.caption("a", "de")):
            with pytest.raises(ConnectionLost) as caught:
                await again
            assert caught.value.reconnect is reconnect


async def test_a_cut_connection_allows_reconnecting() -> None:
    async def handler(socket: ServerConnection) -> None:
        await send(socket, WELCOME)
        socket.transport.abort()

    async with fake(handler) as url, connect(url) as client:
        with pytest.raises(ConnectionLost) as caught:
            await anext(client)
        assert caught.value.reconnect


async def test_an_error_without_ref_about_the_rate_answers_the_oldest_request() -> None:
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

    await test()


async def test_a_missing_answer_raises_a_timeout_with_an_explanation() -> None:
    async def handler(socket: ServerConnection) -> None:
        await send(socket, WELCOME)
        await socket.wait_closed()

    async with fake(handler) as url, connect(url) as client:
        client._tracker._answer_s = 0.01  # not for the welcome, which may come late
        with pytest.raises(TimeoutError, match="did not answer say"):
            await client.say("hello")


async def flood(socket: ServerConnection) -> None:
    """Send more events than the client keeps, then the answer to the request, then one more."""
    await send(socket, WELCOME)
    request = await ask(socket)
    await send(socket, *(Tick(seq=n) for n in range(FLOOD)))
    await send(
        socket,
        {"type": "ack", "id": "a", "rev": 1, "ord": 1, "ref": request["ref"]},
        Tick(seq=FLOOD),
    )


FLOOD = requests.QUEUE + 100


async def test_a_slow_program_that_iterates_loses_no_event() -> None:
    async with fake(flood) as url, connect(url) as client:
        saying = asyncio.create_task(client.say("hello"))
        events = []
        async for event in client:
            await asyncio.sleep(0)  # others first: the queue fills up
            events.append(event)
            if not saying.done():
                assert len(client._tracker._events) <= FLOOD - 100
        assert [e.seq for e in events if isinstance(e, Tick)] == list(range(FLOOD + 1))
        assert await saying == "a"


async def test_a_program_that_iterates_and_stalls_makes_the_client_stop_reading() -> None:
    async with fake(flood) as url, connect(url) as client:
        client._tracker._answer_s = 0.2  # not for the welcome, which may come late
        aiter(client)
        with pytest.raises(TimeoutError, match="must not stop"):
            await client.say("hello")  # its answer comes after the flood
        await until(lambda: len(client._tracker._events) >= FLOOD - 100)  # also after the timeout
        assert len(client._tracker._events) == FLOOD - 100
    # and leaving does not hang


async def test_a_program_that_never_iterates_gets_answers_and_loses_the_oldest_events() -> None:
    async with fake(flood) as url, connect(url) as client:
        assert await client.say("hello") == "a"
        await client.socket.wait_closed()
        events = [event async for event in client]
        assert len(events) == FLOOD - 100
        assert events[-1] == Tick(seq=FLOOD)


async def test_the_number_of_stored_endings_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "KEPT", 2)
    ended = [
        Failed(seq=n, id=str(n), rev=1, ord=n, lang="de", code="x", retry=False) for n in (1, 2, 3)
    ]

    async def handler(socket: ServerConnection) -> None:
        await send(socket, WELCOME, *ended)

    async with fake(handler) as url, connect(url) as client:
        assert [event async for event in client] == ended
        with pytest.raises(NotTranslated):
            await client.caption("3", "de")
        with pytest.raises(ConnectionLost):
            await client.caption("1", "de")
