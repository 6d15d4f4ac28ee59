"""The cheapest WebSocket, against correct servers and others."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import websockets
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from websockets.asyncio.server import ServerConnection
from websockets.typing import Subprotocol

from caption_tools.loadtest.socket import Socket, tls
from tests.support.live import until
from tests.support.stream_server import StreamServer
from tests.support.typed import current

Handler = Callable[[ServerConnection], Awaitable[None]]
Raw = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Client:
    """A socket, its messages, and how it ended."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        self.heard: list[bytes] = []
        self.gone: list[tuple[int, str]] = []
        self.socket = Socket(
            url,
            context,
            "gw.v1.json",
            "key",
            self.heard.append,
            lambda code, reason: self.gone.append((code, reason)),
        )


@asynccontextmanager
async def library(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Run a server of the websockets library."""
    async with websockets.serve(
        handler,
        "127.0.0.1",
        0,
        subprotocols=[Subprotocol("gw.v1.json")],
        ssl=context,
        compression=None,
    ) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"{'ws' if context is None else 'wss'}://127.0.0.1:{port}/v1/ws?a=b"


@asynccontextmanager
async def connected(handler: Handler) -> AsyncIterator[Client]:
    """Return a client of such a server."""
    async with library(handler) as url:
        client = Client(url)
        await client.socket.connect()
        yield client
        client.socket.close()


@asynccontextmanager
async def raw(handler: Raw) -> AsyncIterator[str]:
    """Run a server that writes any bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await handler(reader, writer)

    async with StreamServer(serve) as server:
        yield f"ws://{server.address}/"


async def test_messages_go_both_ways_and_pings_are_answered() -> None:
    async def serve(server: ServerConnection) -> None:
        assert server.request is not None
        assert server.request.path == "/v1/ws?a=b"
        assert server.request.headers["Authorization"] == "Bearer key"
        await (await server.ping())
        async for message in server:
            assert message == "hello"
            await server.send("answer")
            await server.close(4008, "too slow")

    async with connected(serve) as client:
        client.socket.send(b"hello")
        await until(lambda: bool(client.gone))
        assert client.heard == [b"answer"]
        assert client.gone == [(4008, "too slow")]


async def test_closing_a_socket_does_not_report_a_lost_connection() -> None:
    codes: list[int | None] = []

    async def serve(server: ServerConnection) -> None:
        await server.wait_closed()
        codes.append(server.close_code)

    async with connected(serve) as client:
        client.socket.close()
        await until(lambda: bool(codes))
        assert (codes, client.gone) == ([1000], [])


async def test_a_handshake_that_is_answered_after_the_timeout_closes_the_socket() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))

    async def hold(server: ServerConnection, request: object) -> None:
        asked.set()
        await answer.wait()

    async with websockets.serve(
        lambda server: server.wait_closed(),
        "127.0.0.1",
        0,
        subprotocols=[Subprotocol("gw.v1.json")],
        process_request=hold,
    ) as server:
        client = Client(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        connecting = asyncio.create_task(client.socket.connect())
        await asked.wait()
        connecting.cancel()
        await asyncio.wait((connecting,))
        answer.set()
        await until(lambda: hasattr(client.socket, "_transport"))
        await client.socket._transport.wait_disconnected()
    assert (faults, client.gone, client.socket.open) == ([], [], False)


async def test_a_socket_is_full_if_the_server_does_not_read() -> None:
    async def serve(server: ServerConnection) -> None:
        await server.wait_closed()

    async with connected(serve) as client:
        assert not current(client.socket.full)
        for _ in range(1_000):
            client.socket.send(b"a" * 65_536)
            if current(client.socket.full):
                break
        assert client.socket.full
        client.socket._transport.disconnect(graceful=False)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 503 Busy\r\n\r\n", "received 503"),
        (b"HTTP/1.1 101 Fine\r\n\r\n", "no gateway, or it is full: cannot upgrade"),
        (b"", "The gateway hung up"),
        (b"a" * 70_000, "headers exceed"),
    ],
)
async def test_a_server_that_is_not_a_gateway_is_a_sentence(answer: bytes, says: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async with raw(serve) as url:
        client = Client(url)
        with pytest.raises(ConnectionError, match=says):
            await client.socket.connect()
        assert client.gone == []


async def test_a_frame_that_no_server_sends_ends_the_socket() -> None:
    async def serve(server: ServerConnection) -> None:
        server.transport.write(bytes((0x81, 0xFF)) + bytes(8))
        await server.wait_closed()

    async with connected(serve) as client:
        await until(lambda: bool(client.gone))
        assert client.gone[0][0] == 1006


async def test_a_port_without_a_listener_is_an_os_error() -> None:
    with pytest.raises(OSError, match="refused|Connect call failed"):
        await Client("ws://127.0.0.1:1/").socket.connect()


async def test_a_secure_address_is_connected_by_tls(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "server.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(file)
    ours = tls("wss://localhost")
    assert ours is not None and tls("ws://localhost") is None

    async def serve(server: ServerConnection) -> None:
        await server.send("hello")
        await server.wait_closed()

    async with library(serve, theirs) as url:
        url = url.replace("127.0.0.1", "localhost")
        with pytest.raises(ssl.SSLCertVerificationError):
            await Client(url, context=ours).socket.connect()
        ours.load_verify_locations(file)
        client = Client(url, ours)
        await client.socket.connect()
        await until(lambda: client.heard == [b"hello"])
        client.socket.close()
