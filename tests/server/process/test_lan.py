"""A meeting on the local network: its links, keys and certificate."""

from __future__ import annotations

import io
import re
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2 as httpx
import pytest
import segno
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.auth.api_keys import ApiKey, create_key
from gateway.errors import CloseCode
from gateway.server.process import lan
from gateway.server.process.listener import listen
from gateway.server.routes import qr
from gateway.settings.catalogue import Settings, SettingsError
from tests.server.started import SCRIPTED, Process, gateway
from tests.support.talk import Talk

LAN = (*SCRIPTED, "--lan")


@pytest.fixture(scope="module")
def ours() -> str:
    """Return an address of this machine that is not loopback."""
    try:
        return lan.reachable_address(lan.ALL_INTERFACES)
    except OSError as exc:
        pytest.skip(str(exc))


class Link:
    """A printed link and its parts."""

    def __init__(self, process: Process, word: str) -> None:
        found = re.search(rf"^  {word} .*?(https?://\S+)$", process.text, re.MULTILINE)
        assert found is not None, process.text
        self.text = found[1]
        parts = urlsplit(self.text)
        self.base = f"{parts.scheme}://{parts.netloc}"
        self.path = parts.path
        self.query = {name: value for name, [value] in parse_qs(parts.query).items()}
        self.behind = {name: value for name, [value] in parse_qs(parts.fragment).items()}


def test_lan_prints_links_with_an_address_that_other_machines_reach(ours: str) -> None:
    with gateway(*LAN) as process:
        speak, read = Link(process, "Speak"), Link(process, "Read")
        assert speak.base == read.base == f"http://{ours}:{process.port}"
        assert (speak.path, read.path) == ("/", "/join.html")
        assert speak.query == {"room": read.query["room"], "role": "moderate"}
        assert read.query.keys() == {"room"}
        assert speak.behind.keys() == {"key", "guests", "speakers"}
        assert speak.behind["guests"] == read.behind["key"]
        assert len(set(speak.behind.values())) == 3
        here = Link(process, "To speak on this machine:")
        assert here.text == speak.text.replace(ours, "127.0.0.1")
        for link in (speak, read, here):
            assert httpx.get(link.text.partition("#")[0]).status_code == 200
        assert "phones allow the microphone only over https" in process.text
        assert "\x1b" not in process.text  # it is no terminal


async def test_readers_cannot_speak_and_nobody_connects_without_a_key(ours: str) -> None:
    with gateway(*LAN) as process:
        speak, read = Link(process, "Speak"), Link(process, "Read")
        url = f"ws://{ours}:{process.port}/v1/ws?room={read.query['room']}&from=en&to=de"
        shown = [{"authorization": f"Bearer {link.behind['key']}"} for link in (speak, read)]
        async with (
            connect(f"{url}&role=moderate", additional_headers=shown[0]) as first,
            connect(f"{url}&role=view", additional_headers=shown[1]) as second,
        ):
            speaker, reader = Talk(first), Talk(second)
            await reader.send("may I say something")
            assert (await reader.until("error"))[-1]["code"] == "forbidden"
            await speaker.send("good morning")
            assert (await reader.until("final"))[-1]["text"].endswith("morning")
        guest = {"authorization": f"Bearer {speak.behind['speakers']}"}
        for role, headers, code in (
            ("moderate", guest, CloseCode.FORBIDDEN),
            ("speak", shown[1], CloseCode.FORBIDDEN),
            ("moderate", shown[1], CloseCode.FORBIDDEN),
            ("view", {}, CloseCode.UNAUTHENTICATED),
            ("view", {"authorization": f"Bearer gwk_{'0' * 8}_{'0' * 64}"}, 4401),
        ):
            try:
                async with connect(f"{url}&role={role}", additional_headers=headers) as refused:
                    assert (await Talk(refused).closed())[0] == code
            except (ConnectionClosed, InvalidStatus) as exc:
                pytest.fail(f"it says why on the socket: {exc}")
        async with httpx.AsyncClient(base_url=read.base) as http:
            assert (await http.post("/v1/tickets", json={"room": "demo"})).status_code == 401
            ticket = {"room": "demo", "role": "speak"}
            assert (await http.post("/v1/tickets", json=ticket, headers=guest)).status_code == 200
            assert (
                await http.post("/v1/tickets", json=ticket, headers=shown[1])
            ).status_code == 403


def test_keys_are_new_at_each_start_and_appear_only_in_the_links(ours: str) -> None:
    seen = []
    for _ in range(2):
        with gateway(*LAN, "--log-level", "debug") as process:
            links = [Link(process, word) for word in ("Speak", "Read")]
            for link in links:
                shown = {"authorization": f"Bearer {link.behind['key']}"}
                httpx.post(f"{link.base}/v1/tickets", json={"room": "demo"}, headers=shown)
        said = process.text
        assert len(re.findall(r"gwk_", said)) == 7  # the speaker's link is there twice
        seen += [link.behind["key"] for link in links]
    assert len(set(seen)) == 4


def test_no_keys_are_made_if_there_is_a_file_of_keys(ours: str, tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    shown, entry = create_key(ApiKey(id="0" * 8, name="a", hash="0" * 64), "0" * 64)
    file.write_text(entry)
    with gateway(*LAN, "--keys", str(file)) as process:
        speak, read = Link(process, "Speak"), Link(process, "Read")
        assert speak.behind == read.behind == {}
        assert f"asks for a key of {file}" in process.text
        answer = httpx.post(
            f"{speak.base}/v1/tickets",
            json={"room": "demo"},
            headers={"authorization": f"Bearer {shown}"},
        )
        assert answer.status_code == 200


def test_a_page_at_a_loopback_address_shows_the_qr_code_of_the_reachable_address(
    ours: str,
) -> None:
    with gateway(*LAN) as process:
        path = "/v1/rooms/demo/qr.svg"
        there = f"http://{ours}:{process.port}/join.html?room=demo"
        shown = {"authorization": "Bearer gwk_reader"}
        here = httpx.get(f"http://127.0.0.1:{process.port}{path}", headers=shown)
        assert here.content == qr.draw(f"{there}#key=gwk_reader")
        assert here.headers["link"] == f'<{there}>; rel="describes"'
        other = httpx.get(f"http://{ours}:{process.port}{path}")
        assert other.content == qr.draw(there)
        assert "link" not in other.headers


# --- https ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory, ours: str) -> tuple[Path, Path]:
    """Return a self-signed certificate for this machine's address, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gateway")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(ours))])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("certificate")
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(private(key))
    return files


def private(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    """Return a private key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


async def test_with_a_certificate_the_page_and_its_sockets_are_encrypted(
    certificate: tuple[Path, Path],
) -> None:
    trust = ssl.create_default_context(cafile=certificate[0])

    cert, key = map(str, certificate)
    with gateway(*LAN, "--certfile", cert, "--keyfile", key) as process:
        speak = Link(process, "Speak")
        assert speak.base.startswith("https://")
        url = f"wss{speak.base.removeprefix('https')}/v1/ws?from=en&to=de&role=moderate"
        shown = {"authorization": f"Bearer {speak.behind['key']}", "origin": speak.base}
        async with connect(url, ssl=trust, additional_headers=shown) as ws:
            talk = Talk(ws)
            await talk.send("good morning")
            assert (await talk.until("final"))[-1]["text"].endswith("morning")
        async with httpx.AsyncClient(verify=trust, base_url=speak.base) as http:
            assert "Live captions" in (await http.get("/")).text
            assert (await http.get("/v1/rooms/demo/qr.svg")).content == qr.draw(
                f"{speak.base}/join.html?room=demo"
            )
        assert "microphone" not in process.text
    assert "Traceback" not in process.text


def test_an_oversized_request_head_is_answered_by_431_under_tls_too(
    certificate: tuple[Path, Path], ours: str
) -> None:
    trust = ssl.create_default_context(cafile=certificate[0])
    cert, key = map(str, certificate)
    with (
        gateway(
            *SCRIPTED, "--host", ours, "--insecure", "--certfile", cert, "--keyfile", key
        ) as it,
        socket.create_connection((ours, it.port), timeout=10) as plain,
        trust.wrap_socket(plain, server_hostname=ours) as secure,
    ):
        assert f"Open   https://{ours}:{it.port}/" in it.text
        assert f"wss://{ours}:{it.port}/v1/ws" in it.text
        secure.sendall(b"GET / HTTP/1.1\r\nhost: x\r\ncookie: " + b"x" * 40_000)
        assert secure.recv(65_536).startswith(b"HTTP/1.1 431")
    assert "Traceback" not in it.text


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--keyfile", "{key}"), "name that with --certfile"),
        (("--certfile", "{key}"), "{key} holds no certificate in PEM form"),
        (("--certfile", "{cert}"), "{cert} holds no private key in PEM form. Name one with"),
        (("--certfile", "{cert}", "--keyfile", "{cert}"), "{cert} holds no private key"),
        (("--certfile", "{cert}", "--keyfile", "{locked}"), "The private key in {locked} is encr"),
        (("--certfile", "{cert}", "--keyfile", "{other}"), "The key in {other} does not belong"),
        (
            ("--certfile", "{broken}", "--keyfile", "{key}"),
            "OpenSSL cannot use {broken} with {key}",
        ),
        (("--certfile", "nowhere.pem"), "nowhere.pem cannot be read: No such file or directory."),
        (("--certfile", "{cert}", "--keyfile", "/"), "/ cannot be read: Is a directory. Check --k"),
    ],
)
def test_an_unusable_certificate_is_explained_in_one_sentence(
    certificate: tuple[Path, Path], tmp_path: Path, flags: tuple[str, ...], says: str
) -> None:
    cert, key = certificate
    locked = tmp_path / "locked.pem"
    secret = serialization.load_pem_private_key(key.read_bytes(), None)
    locked.write_bytes(
        secret.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    files = {"cert": cert, "key": key, "locked": locked}
    for name, data in (("other", private(rsa.generate_private_key(65537, 2048))), ("broken", None)):
        files[name] = tmp_path / name
        files[name].write_bytes(data or cert.read_bytes().replace(b"\nM", b"\nX"))
    given = [flag.format(**files) for flag in flags]
    with gateway(*SCRIPTED, *given) as process:
        assert process.popen.wait() == 2
    assert says.format(**files) in process.text
    assert "Traceback" not in process.text


# --- the parts -----------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that may be a terminal."""

    def __init__(self, encoding: str = "utf-8", *, live: bool = True) -> None:
        super().__init__()
        self._encoding = encoding
        self._live = live

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._live


READ = f"https://192.168.100.100:8443/join.html?room=bada-gofi-42#key=gwk_{'0' * 8}_{'0' * 64}"


def test_a_qr_code_in_a_terminal_encodes_the_link_black_on_white() -> None:
    rows: list[list[int]] = []
    for line in lan.qr_code(READ).split("\n"):
        colours, cells = re.findall(r"\x1b\[([\d;]+)m", line), re.sub(r"\x1b\[[\d;]+m", "", line)
        assert colours in (["38;5;231;48;5;16", "0"], ["38;5;231", "0"])
        rows.append([int(cell not in "█▀") for cell in cells])
        rows.append([int(cell not in "█▄") for cell in cells])
    rows.pop()  # the lower half of the last line is the terminal's own
    quiet = lan.QUIET_ZONE
    assert all(set(row) == {0} for row in (*rows[:quiet], *rows[-quiet:]))
    assert all(set(row[:quiet] + row[-quiet:]) == {0} for row in rows)
    inner = [row[quiet:-quiet] for row in rows[quiet:-quiet]]
    assert inner == [list(row) for row in segno.make_qr(READ, error="l").matrix]


def test_the_qr_code_is_shown_only_on_a_terminal_that_can_show_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shown(out: Terminal, columns: int = 80, term: str = "xterm") -> bool:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", term)
        text = lan.notice(lan.Invitation("http://a:1", None, "demo"), Settings(), out)
        assert "http://a:1/join.html?room=demo" in text
        return "█" in text

    assert shown(Terminal())
    assert not shown(Terminal(live=False))
    assert not shown(Terminal(), columns=30)
    assert not shown(Terminal(), term="dumb")
    assert not shown(Terminal("ascii"))


def test_the_qr_code_of_the_longest_link_fits_a_usual_terminal() -> None:
    last = lan.qr_code(READ).rpartition("\n")[2]
    assert len(re.sub(r"\x1b\[[\d;]+m", "", last)) <= 60


def test_lan_listens_on_all_interfaces_unless_one_of_them_is_named() -> None:
    assert lan.host(Settings(lan=True)) == "0.0.0.0"
    assert lan.host(Settings(lan=True, host="192.168.0.7")) == "192.168.0.7"
    assert lan.host(Settings()) == "127.0.0.1"
    assert lan.reachable_address("192.168.0.7") == "192.168.0.7"


def test_a_machine_without_a_default_route_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alone(socket.socket):
        def connect(self, address: object) -> None:
            raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "socket", Alone)
    with pytest.raises(OSError, match="no default route: join a network, or name with --host"):
        lan.reachable_address("0.0.0.0")


@pytest.fixture
def invited(monkeypatch: pytest.MonkeyPatch) -> Callable[..., lan.Invitation]:
    def invite(host: str, **given: Any) -> lan.Invitation:
        settings = Settings(lan=True, host=host, **given)
        with listen(host, 0) as listener:
            return lan.invite(listener, settings)

    return invite


def test_the_repr_of_an_invitation_shows_no_key(invited: Callable[..., lan.Invitation]) -> None:
    one = invited("127.0.0.1")
    assert one.here is None and one.moderator is not None
    assert "gwk_" not in repr(one)
    assert one.reader_link.startswith(f"{one.base}/join.html?room={one.room}#key=gwk_")


def test_no_keys_are_made_if_insecure_is_set(
    invited: Callable[..., lan.Invitation],
) -> None:
    one = invited("127.0.0.1", insecure=True)
    assert one.ring is None and "#" not in one.speaker_link() + one.reader_link
    assert "may do everything" in lan.notice(one, Settings(insecure=True), Terminal(live=False))


def test_lan_with_a_shared_port_needs_a_file_of_keys(
    invited: Callable[..., lan.Invitation],
) -> None:
    with pytest.raises(SettingsError, match="--keys"):
        invited("127.0.0.1", reuse_port=True)
    assert invited("127.0.0.1", reuse_port=True, keys="keys.toml").ring is None


def test_a_room_name_is_pronounceable() -> None:
    assert re.fullmatch(r"([b-z][aeiou]){2}-([b-z][aeiou]){2}-[1-9][0-9]", lan.new_room_name())
