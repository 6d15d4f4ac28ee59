"""Privacy of the log: no text and no credentials appear in it, at any level."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import sys
from pathlib import Path

import httpx2 as httpx
import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from gateway.protocol.messages import Say
from gateway.protocol.personal import personal_fields
from tests.server.access.credentials import BOTH, FILE, MODERATOR, RSA, SPEAKER, bearer, signed
from tests.server.started import SCRIPTED, Process, gateway
from tests.support.receiver import Receiver
from tests.support.talk import Talk

CANARY = "canary-7261"
"""A word in every text that is sent, which the scripted engine repeats."""

JWT_KEY = f"{CANARY}-secret-of-32-bytes-or-more"


async def meet(process: Process) -> list[str]:
    """Do all that a client can do, correctly and wrongly; return the secrets it used."""
    ws, http = (f"{scheme}://127.0.0.1:{process.port}" for scheme in ("ws", "http"))
    secrets = [MODERATOR, SPEAKER]
    async with httpx.AsyncClient(base_url=http, headers=bearer(SPEAKER)) as client:
        body = {"text": f"{CANARY} one", "source_lang": "en", "target_lang": "de"}
        for more in ({}, {"stream": True}, {"target_lang": f"x{CANARY}"}, {"context": CANARY}):
            await client.post("/v1/translate", json=body | more)
        libre = {"q": CANARY, "source": "en", "target": "de", "api_key": "gwk_wrong_one"}
        await client.post("/translate", json=libre, headers={"authorization": "Basic x"})
        await client.post("/v1/translate", content=f'{{"text": "{CANARY}')
        ticket = (await client.post("/v1/tickets", json={"room": "demo"})).json()["ticket"]
        secrets.append(ticket)
        async with connect(f"{ws}/v1/ws?ticket={ticket}&to=de&speaker={CANARY}") as socket:
            resume = (await Talk(socket).next())["resume"]
            secrets.append(resume)
            socket.transport.abort()
        async with connect(f"{ws}/v1/ws?resume={resume}&epoch=x&seq=0") as socket:
            await Talk(socket).next()
        async with connect(f"{ws}/v1/ws?ticket={ticket}") as socket:
            await Talk(socket).closed()
        protocols = [Subprotocol("gw.v1.json"), Subprotocol(f"gw.bearer.{MODERATOR}")]
        url = f"{ws}/v1/ws?room=demo&role=moderate&from=en&to=de"
        async with connect(url, subprotocols=protocols) as socket:
            talk = Talk(socket)
            terms = {CANARY: CANARY}
            await talk.send({"type": "set", "context": CANARY, "glossary": terms})
            await talk.send({"type": "say", "id": "a", "text": f"{CANARY} two", "final": False})
            stated = dict.fromkeys(personal_fields(Say), CANARY)
            await talk.send(stated | {"type": "say", "id": "a", "text": f"{CANARY} two three"})
            await talk.until("final")
            await talk.send({"type": "edit", "id": "a", "lang": "de", "text": CANARY})
            await talk.send({"type": "auth", "token": f"gwk_{CANARY}"})
            await talk.send({"type": "auth", "token": MODERATOR})
            await talk.until("authenticated")
            await talk.send(f'{{"type": "{CANARY}"}}')
            await talk.send(f"{{{CANARY}")
            await talk.send(CANARY.encode())
            await talk.until("error")
            await socket.send(b"\xff" + CANARY.encode(), text=True)  # is not UTF-8: closes 1007
            await talk.closed()
        async with connect(url, subprotocols=protocols) as socket:
            await socket.send(f"{CANARY} " * 20_000)  # too big: closes 1009
            await Talk(socket).closed()
        await client.get("/v1/rooms/demo/transcript.json", params={"lang": "de"})
    return secrets


async def come_from_the_issuer(process: Process) -> list[str]:
    """Present tokens of the issuer, correct and wrong ones; return the valid ones."""
    http = f"http://127.0.0.1:{process.port}"
    good = signed(RSA, "RS256", kid="r", aud="captions", sub=CANARY, rooms="*", role="speak")
    body = {"text": f"{CANARY} one", "source_lang": "en", "target_lang": "de"}
    async with httpx.AsyncClient(base_url=http) as client:
        for token in (good, signed(RSA, "RS256", kid=CANARY), f"{CANARY}.{CANARY}.{CANARY}"):
            answer = await client.post("/v1/translate", json=body, headers=bearer(token))
            assert answer.status_code == (200 if token is good else 401)
    return [good]


COOKIES = [f"Set-Cookie: c{number}={CANARY}-{number}; Path=/" for number in range(3)]
"""Headers with which receivers and token issuers answer."""

OUTPUT = """
[[output]]
kind = "webhook"
room = "*"
to = "de"
url = "http://{name}:{canary}@127.0.0.1:{port}/{canary}?key={canary}"
secret_key = "whsec_{secret}"
name = "{name}"
"""


def outputs(**ports: int) -> str:
    """Return tables of webhooks whose addresses and secrets must not be logged."""
    secret = base64.b64encode(CANARY.encode() * 3).decode()
    return "".join(
        OUTPUT.format(name=name, port=port, canary=CANARY, secret=secret)
        for name, port in ports.items()
    )


def written_files(pid: int) -> list[str]:
    """Return the files that a process has opened to write to, except standard output."""
    found = []
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        link = Path(f"/proc/{pid}/fd/{info.name}")
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile, as sockets are
            flags = re.search(r"flags:\s+(\d+)", info.read_text())
            if flags and int(flags[1], 8) & os.O_ACCMODE and link.is_file() and int(info.name) > 2:
                found.append(os.readlink(link))
    # The language detector unpacks its model in a file without a name.
    return [path for path in found if not path.endswith("(deleted)")]


def test_without_a_store_a_gateway_writes_no_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "keys.toml").write_text(FILE)
    before = sorted(tmp_path.rglob("*"))
    flags = ["--scripted-pace", "0", "--keys", str(tmp_path / "keys.toml")]
    program = (sys.executable, "-B", "-m", "gateway", "serve")
    where = str(home)
    with gateway(
        *SCRIPTED,
        *flags,
        program=program,
        cwd=home,
        HOME=where,
        TMPDIR=where,
        XDG_CACHE_HOME=where,
    ) as process:
        asyncio.run(meet(process))
        assert written_files(process.popen.pid) == []
        process.popen.terminate()
        process.popen.wait()
    assert sorted(tmp_path.rglob("*")) == before


def pieces(secret: str) -> list[str]:
    """Return parts of a secret that would reveal much of it."""
    if secret.startswith("gwk_"):
        return [secret.rpartition("_")[2][:24]]
    return [part[:24] for part in secret.split(".")]


@pytest.mark.parametrize(("loop", "form"), [("asyncio", "text"), ("uvloop", "json")])
async def test_a_meeting_logged_at_debug_leaves_no_text_and_no_secret_in_the_log(
    tmp_path: Path, loop: str, form: str
) -> None:
    keys, config = tmp_path / "keys.toml", tmp_path / "gateway.toml"
    keys.write_text(FILE)
    async with (
        Receiver(headers=COOKIES) as receiver,
        Receiver(500, 302, headers=[*COOKIES, f"Location: /{CANARY}"]) as failing,
        Receiver(number=BOTH, headers=COOKIES) as issuer,
    ):
        config.write_text(outputs(good=receiver.port, failing=failing.port, away=1))
        flags = ["--log-level", "debug", "--log-format", form, "--keys", str(keys)]
        flags += ["--loop", loop, "--scripted-pace", "0", "--drain-s", "1"]
        flags += ["--jwks-url", issuer.url, "--jwt-audience", "captions", "--config", str(config)]
        # In asyncio's debug mode the event loop logs callbacks with their arguments.
        with gateway(
            *SCRIPTED,
            *flags,
            GATEWAY_JWT_KEY=JWT_KEY,
            PYTHONASYNCIODEBUG="1",
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://user:{CANARY}@127.0.0.1:1",
            # The library logs a header that is not percent-encoded.
            OTEL_EXPORTER_OTLP_HEADERS=f"authorization Bearer {CANARY}",
        ) as process:
            secrets = await meet(process)
            secrets += await come_from_the_issuer(process)
            assert issuer.received and await receiver.take(1) and await failing.take(2)
            process.popen.terminate()
            await asyncio.to_thread(process.popen.wait, 20)
            assert process.popen.returncode == 0
            said = process.text
    assert '"debug"' in said or "DEBUG" in said
    assert "gateway.connection" in said, "it logged nothing at all"
    assert "POST /v1" not in said and "HTTP/1.1" not in said, "there is an access log"
    assert "WARNING opentelemetry" in said or '"opentelemetry' in said
    assert "output failing failed: 500" in said and "public keys of the token issuer" in said
    if form == "json":
        assert all(json.loads(line) for line in said.splitlines() if line.startswith("{"))
    assert [line for line in said.splitlines() if CANARY in line] == []
    for secret in secrets:
        assert secret not in said
        for piece in pieces(secret):
            assert len(piece) >= 16
            assert piece not in said
    assert "Traceback" not in said
    assert json.dumps(CANARY) not in said
