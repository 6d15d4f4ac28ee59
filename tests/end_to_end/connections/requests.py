"""HTTP requests of every route, answered or not."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.blocking_client import BlockingClient
from tests.end_to_end.connections.kinds import Gateway, answered, kind
from tests.support.hearing import tone
from tests.support.sound_files import wav

HELLO = {"text": "good morning", "source_lang": "en", "target_lang": "de"}
CHAT = {"model": "translate-de", "messages": [{"role": "user", "content": "Good morning"}]}
FORM = {"content-type": "application/x-www-form-urlencoded"}
PARTS = b"".join(
    b'--b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % part
    for part in ((b"q", b"hello"), (b"target", b"de"), (b"source", b"en"))
)
FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%b\r\n--b--\r\n'
HEARD: dict[str, Any] = {
    "body": FILE % wav(tone(0.8)),
    "content-type": "multipart/form-data; boundary=b",
}
answered("translate", "/v1/translate", "POST", "/v1/translate", body=HELLO)
answered(
    "translate_stream", "/v1/translate", "POST", "/v1/translate", body=HELLO | {"stream": True}
)
answered("chat", "/v1/chat/completions", "POST", "/v1/chat/completions", body=CHAT)
answered(
    "chat_stream",
    "/v1/chat/completions",
    "POST",
    "/v1/chat/completions",
    body=CHAT | {"stream": True},
)
answered(
    "deepl",
    "/v2/translate",
    "POST",
    "/v2/translate",
    body=b"text=hello&target_lang=DE&source_lang=EN",
    **FORM,
)
answered("libre", "/translate", "POST", "/translate", body=b"q=hello&target=de&source=en", **FORM)
answered(
    "libre_parts",
    "/translate",
    "POST",
    "/translate",
    body=PARTS + b"--b--\r\n",
    **{"content-type": "multipart/form-data; boundary=b"},
)
for path in ("/v1/audio/transcriptions", "/v1/audio/translations"):
    answered(path.rpartition("/")[2], path, "POST", path, **HEARD)
answered("detect", "/detect", "POST", "/detect", body=b"q=good+morning+everybody", **FORM)
answered("ticket", "/v1/tickets", "POST", "/v1/tickets", body={"room": "meeting", "role": "view"})
for path in (
    *("/v1/languages", "/healthz", "/readyz", "/readyz/rooms", "/metrics", "/languages"),
    *("/frontend/settings",),
    *(
        "/openapi.json",
        "/v2/languages",
        "/v2/usage",
        "/v1/models",
        "/",
        "/join.html",
        "/overlay.html",
    ),
):
    answered(path, path, "GET", path)
answered("model", "/v1/models/{model}", "GET", "/v1/models/translate-de")


@kind("/static/{version}/{path:path}")
def the_files_of_the_page(gateway: Gateway) -> None:
    found = re.findall(rb'"/?(static/[^"]+)"', gateway.ask("GET", "/").end())
    for path in set(found[:10]):
        assert b" 200 " in gateway.ask("GET", f"/{path.decode()}").end()
    gateway.ask("GET", "/static/1/nothing.js").end()


@kind("/v1/rooms/{room}/qr.svg")
def requests_for_a_room_that_is_not_there(gateway: Gateway) -> None:
    gateway.ask("GET", "/v1/rooms/nobody/qr.svg").end()
    gateway.ask("GET", "/v1/rooms/nobody/transcript.vtt").end()
    gateway.ask("DELETE", "/v1/rooms/nobody").end()


@kind("/v1/rooms/{room}/transcript.{format}")
def a_transcript_that_nobody_waits_for(gateway: Gateway) -> None:
    client = gateway.welcome("to=de&room=meeting")
    client.frame("good morning")
    client.until(b'"final"')
    gateway.ask("GET", "/v1/rooms/meeting/transcript.json").abort()
    client.abort()


@kind("/v1/translate")
def requests_that_are_refused(gateway: Gateway) -> None:
    glossary = {str(n): "x" for n in range(1_000)}
    wrong: tuple[dict[str, Any], ...]
    wrong = ({"text": ""}, {"target_lang": "xx-nope-no"}, {"glossary": glossary})
    for fields in wrong:
        assert b" 4" in gateway.ask("POST", "/v1/translate", {**HELLO, **fields}).end()[:20]
    assert b" 4" in gateway.ask("POST", "/v1/translate", b"{").end()[:20]
    assert b" 401 " in gateway.ask("POST", "/v1/translate", authorization="Bearer nothing").end()


@kind("/v1/translate")
def a_translation_that_nobody_waits_for(gateway: Gateway) -> None:
    gateway.call(gateway.engine.hold)
    for body in (HELLO, HELLO | {"stream": True}):
        client = gateway.ask("POST", "/v1/translate", body)
        gateway.until(lambda: gateway.engine.unfinished)
        client.abort()
        gateway.until(lambda: not gateway.engine.unfinished)


@kind("/v1/chat/completions")
def a_chat_that_nobody_waits_for(gateway: Gateway) -> None:
    gateway.call(gateway.engine.hold)
    for body in (CHAT, CHAT | {"stream": True}):
        client = gateway.ask("POST", "/v1/chat/completions", body)
        gateway.until(lambda: gateway.engine.unfinished)
        client.abort()
        gateway.until(lambda: not gateway.engine.unfinished)


@kind("/v1/audio/translations")
def a_file_that_nobody_waits_for(gateway: Gateway) -> None:
    gateway.call(gateway.engine.hold)
    form = (
        b'--b\r\nContent-Disposition: form-data; name="target_lang"\r\n\r\nde\r\n' + HEARD["body"]
    )
    client = gateway.ask("POST", "/v1/audio/translations", **{**HEARD, "body": form})
    gateway.until(lambda: gateway.engine.unfinished)
    client.abort()
    gateway.until(lambda: not gateway.engine.unfinished)


@kind("/v1/audio/transcriptions")
def files_that_are_refused(gateway: Gateway) -> None:
    # Not those that need a process: the objects of asyncio for one refer to each other.
    for part in (b'name="prompt"\r\n\r\nno file', b'name="language"\r\n\r\nxx'):
        form = b"--b\r\nContent-Disposition: form-data; %b\r\n" % part
        form += HEARD["body"] if b"xx" in part else b"--b--\r\n"
        asked = {**HEARD, "body": form}
        assert b" 400 " in gateway.ask("POST", "/v1/audio/transcriptions", **asked).end()[:20]


@kind("/v1/translate")
def a_translation_that_fails(gateway: Gateway) -> None:
    def fault(*_: object) -> None:
        raise ValueError("a fault of the engine")

    gateway.engine.fault = fault
    assert b" 5" in gateway.ask("POST", "/v1/translate", HELLO).end()[:20]
    gateway.engine.fault = None


@kind("/v1/translate")
def a_body_that_is_cut(gateway: Gateway) -> None:
    client = gateway.connect()
    client.send(b"POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    client.abort()


@kind("/healthz")
def kept_alive(gateway: Gateway) -> None:
    for leave in (BlockingClient.hang_up, BlockingClient.abort):
        client = gateway.connect()
        for _ in range(3):
            client.request("GET", "/healthz")
            client.until(b"\r\n\r\n")
        leave(client)


@kind("/healthz")
def requests_sent_ahead(gateway: Gateway) -> None:
    for count in (5, 15):
        client = gateway.connect()
        client.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * count)
        client.until(b"HTTP/1.1")
        client.abort()


@kind("/{path:path}")
def no_request_at_all(gateway: Gateway) -> None:
    for head in (b"", b"GET / HT", b"\x16\x03\x01nonsense\r\n\r\n"):
        client = gateway.connect()
        client.send(head)
        client.end()  # in time, or refused
        client = gateway.connect()
        client.send(head)
        client.abort()


@kind("/{path:path}")
def a_head_that_is_too_large(gateway: Gateway) -> None:
    client = gateway.connect()
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\nCookie: %b\r\n\r\n" % (b"n" * 40_000))
    assert b" 431 " in client.end()


@kind("/{path:path}")
def a_foreign_page(gateway: Gateway) -> None:
    client = gateway.connect()
    foreign = {"origin": "http://evil.example", "connection": "close"}
    client.request("GET", "/v1/languages", headers=foreign)
    assert b" 403 " in client.end()
    assert b" 404 " in gateway.ask("GET", "/nothing").end()
