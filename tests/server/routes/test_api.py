"""The HTTP routes besides the WebSocket, over real connections."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import msgspec
import pytest
import websockets
from starlette.websockets import WebSocket

from gateway.client import connect
from gateway.engines import profiles
from gateway.engines.base.language_detection import Detector
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.errors import EngineGone, Rejected
from gateway.limits import Limits
from gateway.server.routes import api, libretranslate, oneshot, page, qr, sse, tickets, transcripts
from gateway.server.routes import body as body_module
from tests.support.live import browse, until


def ask(text: str = "good morning", **more: Any) -> dict[str, Any]:
    return {"text": text, "source_lang": "en", "target_lang": "de", **more}


async def test_one_text_is_translated_by_one_request() -> None:
    async with browse() as (client, live):
        answer = await client.post("/v1/translate", json=ask())
        assert answer.status_code == 200
        body = answer.json()
        assert body["translation"] == "[de] good morning"
        assert body["source_lang"] == "en" and body["target_lang"] == "de"
        assert not live.hub.sessions and not live.hub.rooms


async def test_a_longer_text_is_translated_sentence_by_sentence_and_keeps_its_lines() -> None:
    engine = ScriptedEngine({("One.", "de"): ["Eins."], ("Two.", "de"): ["Zwei."]})
    async with browse(engine) as (client, _):
        answer = await client.post("/v1/translate", json=ask("One. Two.\n\nTwo. One."))
        assert answer.json()["translation"] == "Eins. Zwei.\n\nZwei. Eins."


async def test_a_text_with_more_pieces_than_may_be_in_flight_is_translated_completely() -> None:
    async with browse(limits=Limits(inflight=2, burst=5, rate=1000)) as (client, _):
        text = "\n".join(f"line {n}" for n in range(40))
        answer = await client.post("/v1/translate", json=ask(text))
        assert answer.json()["translation"].count("[de] line") == 40


async def test_a_streamed_translation_sends_the_same_events_as_a_socket() -> None:
    async with browse() as (client, _):
        async with client.stream("POST", "/v1/translate", json=ask(stream=True)) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = [line async for line in answer.aiter_lines()]
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        text = "".join(e["add"] for e in events if e.get("type") == "delta")
        assert text == "[de] good morning"
        assert events[-2]["type"] == "final" and events[-2]["text"] == text
        assert events[-1] == {"translation": text}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_disconnects_ends_its_job_in_the_engine(stream: bool) -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with browse(engine) as (client, live):
        asking = asyncio.create_task(client.post("/v1/translate", json=ask(stream=stream)))
        await until(lambda: engine.unfinished == 1)
        asking.cancel()
        await until(lambda: engine.unfinished == 0 and not live.hub.sessions)
        assert len(engine.aborted) == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "bad_frame"),
        (b"\xff", 400, "bad_frame"),
        (b'{"a":' * 9000, 400, "bad_frame"),
        (b"{}", 400, "bad_frame"),
        (json.dumps(ask(" ")).encode(), 400, "empty_text"),
        (json.dumps(ask(target_lang="tlh")).encode(), 400, "lang_unsupported"),
        (json.dumps(ask(source_lang="tlh")).encode(), 400, "lang_unsupported"),
        (json.dumps(ask(source_lang="en,de")).encode(), 400, "lang_unsupported"),
        (json.dumps(ask("x " * 5001)).encode(), 413, "too_long"),
        (b" " * 65_537, 413, "too_long"),
    ],
)
async def test_a_bad_request_gets_a_status_a_code_and_a_reason(
    body: bytes, status: int, code: str
) -> None:
    async with browse() as (client, live):
        answer = await client.post("/v1/translate", content=body)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.json()["error"]
        assert not live.hub.sessions


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (EngineGone("It died."), 503, "engine_unavailable"),
        (Rejected("loop", "It repeats itself."), 502, "rejected"),
        (ValueError("a bug"), 500, "internal"),
    ],
)
async def test_a_failed_translation_is_an_error_and_never_the_source_text(
    fault: Exception, status: int, code: str
) -> None:
    async with browse(ScriptedEngine(fault=failing(fault))) as (client, _):
        answer = await client.post("/v1/translate", json=ask())
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert "good morning" not in answer.text


async def test_a_translation_that_takes_too_long_is_answered_504(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(oneshot, "ANSWER_S", 0.01)
    engine = ScriptedEngine()
    engine.hold()
    async with browse(engine) as (client, live):
        answer = await client.post("/v1/translate", json=ask())
        assert (answer.status_code, answer.json()["code"]) == (504, "timeout")
        assert engine.unfinished == 0 and not live.hub.sessions


async def test_a_long_text_waits_for_a_full_queue_without_blocking_other_requests() -> None:
    engine = ScriptedEngine(capacity=1)
    engine.hold()
    async with browse(engine, Limits(queue=1)) as (client, live):
        text = "\n".join(f"line {n}" for n in range(6))
        asking = asyncio.create_task(client.post("/v1/translate", json=ask(text)))
        await until(lambda: live.hub.scheduler.queued == 1)
        assert (await client.get("/healthz")).status_code == 200  # the event loop is not blocked
        engine.release()
        assert (await asking).json()["translation"].count("[de] line") == 6


async def test_a_long_text_that_outlasts_the_drain_is_answered_503() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with browse(engine, Limits(inflight=2), drain_s=0.05) as (client, live):
        asking = asyncio.create_task(client.post("/v1/translate", json=ask("1\n2\n3\n4")))
        await until(lambda: engine.unfinished == 2)
        live.server.should_exit = True
        answer = await asking
        assert (answer.status_code, answer.json()["code"]) == (503, "engine_unavailable")
        assert engine.unfinished == 0 and not live.hub.sessions


async def test_a_request_whose_body_does_not_arrive_is_answered_and_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body_module, "BODY_S", 0.01)

    async with browse() as (_, live):
        live.server.config.timeout_keep_alive = 0  # seconds until the connection is closed
        host, port = live.http.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        answer = await reader.read()  # to its end: the connection is closed
        assert b" 408 " in answer and b'"timeout"' in answer
        writer.close()


async def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes() -> None:
    async with browse() as (_, live):
        host, port = live.http.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = b"POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n"
        writer.write(head + b"Connection: close\r\n\r\n")
        answer = await reader.read()
        assert b" 413 " in answer and b'"too_long"' in answer
        writer.close()


async def test_a_client_that_disconnects_within_its_body_leaves_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with browse() as (_, live):
        host, port = live.http.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        await until(lambda: bool(live.server.server_state.tasks))
        writer.transport.abort()
        await until(lambda: not live.server.server_state.tasks)
    assert not caplog.records


async def test_glossary_and_context_reach_the_engine() -> None:
    seen = []
    engine = ScriptedEngine(fault=lambda job, _: seen.append(job))
    async with browse(engine) as (client, _):
        glossary = {"morning": {"de": "Vormittag", "fr": "matin"}, "evening": "Abend"}
        body = ask(context="A stand-up.", glossary=glossary)
        assert (await client.post("/v1/translate", json=body)).status_code == 200
        assert seen[0].glossary == (("morning", "Vormittag"),)
        assert seen[0].topic == "A stand-up."


async def test_languages_are_listed_with_their_names_and_targets() -> None:
    async with browse() as (client, _):
        answer = (await client.get("/v1/languages")).json()
        assert answer["glossary"] is False  # the prompt of the scripted engine has no place for it
        listed = answer["languages"]
        german = next(entry for entry in listed if entry["tag"] == "de")
        assert german["name"] == "German" and german["endonym"] == "Deutsch"
        assert "fr" in german["targets"]


async def test_readyz_follows_the_engine_and_healthz_the_process() -> None:
    engine = ScriptedEngine()
    async with browse(engine) as (client, _):
        assert (await client.get("/readyz")).status_code == 200
        engine.die()
        answer = await client.get("/readyz")
        assert answer.status_code == 503 and answer.json()["status"] == "dead"
        assert (await client.get("/healthz")).status_code == 200


async def test_metrics_count_captions_and_show_the_queue() -> None:
    async with browse() as (client, _):
        await client.post("/v1/translate", json=ask())
        text = (await client.get("/metrics")).text
        assert 'gateway_captions_total{by="mt",outcome="final"} 1.0' in text
        assert "gateway_jobs_queued 0.0" in text
        assert "gateway_ready 1.0" in text
        assert 'gateway_engine_health{engine="scripted",state="ready"} 1.0' in text
        assert "gateway_caption_first_seconds_count 1.0" in text
        assert 'gateway_jobs_total{priority="final"} 1.0' in text
        assert "gateway_utterance_characters_count 1.0" in text


async def test_unknown_paths_and_methods_get_the_body_of_all_errors() -> None:
    async with browse() as (client, _):
        answer = await client.get("/v1/nothing")
        assert answer.status_code == 404
        assert answer.json() == {
            "error": "GET /v1/nothing: Not Found.",
            "code": "not_found",
            "hint": None,
        }
        misspelt = (await client.get("/v1/translat")).json()
        assert misspelt["hint"] == "Did you mean /v1/translate?"
        distant = (await client.get("/" + "x" * 5000)).json()
        assert len(distant["error"]) < 200


METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


async def test_every_route_answers_a_wrong_method_with_405_and_lists_its_methods() -> None:
    async with browse() as (client, _):
        routes = [
            *api.ROUTES,
            *libretranslate.ROUTES,
            *transcripts.ROUTES,
            *tickets.ROUTES,
            *sse.ROUTES,
            *qr.ROUTES,
            *page.routes(),
        ]
        for route in routes:
            has = sorted(route.methods or ())
            path = route.path.replace("{room}", "demo").replace("{format}", "vtt")
            for method in (name for name in METHODS if name not in has):
                answer = await client.request(method, path)
                assert answer.status_code == 405, (method, path)
                assert answer.json() == {
                    "error": f"{method} {path}: Method Not Allowed.",
                    "code": "bad_frame",
                    "hint": f"Allowed: {', '.join(has)}.",
                }
                assert sorted(answer.headers["allow"].split(", ")) == has


async def test_a_plain_request_for_the_path_of_the_socket_is_answered_426() -> None:
    async with browse() as (client, live):
        answer = await client.get("/v1/ws?from=en&to=de")
        assert answer.status_code == 426
        assert answer.headers["upgrade"] == "websocket"
        assert answer.headers["connection"] == "Upgrade"
        assert answer.json()["code"] == "bad_frame"
        assert f"wscat -c '{live.socket}?to=de'" in answer.json()["hint"]
        assert (await client.get("/healthz")).status_code == 200, "the connection stays open"


@pytest.mark.parametrize("path", ["/", "/ws", "/v1/ws/", "/v1/translate", "/v1/rooms/a/events"])
async def test_a_handshake_for_a_wrong_path_is_answered_404_with_the_right_path(path: str) -> None:
    async with browse() as (_, live):
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(live.ws + path)
        assert str(refused.value).endswith("HTTP 404")
        assert json.loads(refused.value.response.body) == {
            "error": f"There is no WebSocket at {path}: it is at /v1/ws.",
            "code": "not_found",
            "hint": f"Try: wscat -c '{live.socket}?to=de'",
        }


async def test_the_python_client_shows_the_answer_to_a_wrong_path() -> None:
    async with browse() as (_, live):
        with pytest.raises(ConnectionError) as told:
            async with connect(live.ws + "/ws", to="de"):
                pass
        says = f"There is no gateway at {live.ws}/ws: There is no WebSocket at /ws/v1/ws:"
        assert str(told.value) == f"{says} it is at /v1/ws."


async def test_a_wrong_path_is_closed_on_a_server_that_cannot_answer_a_handshake() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/ws", "headers": [], "query_string": b""}
    await api.no_socket(WebSocket(scope, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_an_unsupported_language_pair_is_refused_with_the_supported_targets() -> None:
    profile = profiles.load("embedded")
    engine = ScriptedEngine(languages=("de", "en"))
    engine._profile = profile
    async with browse(engine) as (client, live):
        answer = await client.post("/v1/translate", json=ask(source_lang="de", target_lang="fr"))
        assert (answer.status_code, answer.json()["code"]) == (400, "pair_unsupported")
        assert "en" in answer.json()["hint"]
        assert not live.hub.sessions


@pytest.mark.parametrize("path", ["/v1/languages", "/languages"])
async def test_the_list_of_languages_is_made_once_and_not_for_each_request(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with browse() as (client, _):
        page = await client.get(path)
        assert page.headers["content-type"] == "application/json"
        monkeypatch.setattr(msgspec.json, "encode", None)
        assert (await client.get(path)).content == page.content


async def test_the_detector_is_loaded_in_a_thread_while_the_server_already_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def load(detector: Detector) -> None:
        begun.set()
        go_on.wait(20)

    monkeypatch.setattr(Detector, "load", load)

    async with browse() as (client, _):
        await until(begun.is_set)
        answer = await client.post("/v1/translate", json=ask())
        assert answer.json()["translation"] == "[de] good morning"
        go_on.set()


async def test_a_text_without_a_source_language_is_translated_from_the_detected_one() -> None:
    async with browse() as (client, _):
        body = {"text": "Guten Morgen zusammen, wie geht es?", "target_lang": "en"}
        answer = await client.post("/v1/translate", json=body)
        assert answer.json()["translation"] == "[en] Guten Morgen zusammen, wie geht es?"
        assert answer.json()["source_lang"] == "de"


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("de", "Am 13. Oktober treffen wir uns."),
        ("de", "Dr. Meyer kauft z. B. Äpfel."),
        ("en", "The U.S. economy grew by 3.5 percent until Jan. 5, says No. 5."),
        ("fr", "M. Dupont vient le 3 janv. 2026."),
        ("es", "El Sr. Ruiz vive en EE. UU. desde 2020."),
        ("ja", "「はい。」と言った。"),
    ],
)
@pytest.mark.parametrize("source", ["named", "auto"])
async def test_a_date_or_an_abbreviation_does_not_cut_a_text_in_two(
    lang: str, text: str, source: str
) -> None:
    async with browse() as (client, live):
        source_lang = lang if source == "named" else "auto"
        body = {"text": text, "source_lang": source_lang, "target_lang": "it"}
        answer = await client.post("/v1/translate", json=body)
        assert answer.json()["translation"] == f"[it] {text}"
        peer = f"{live.socket}?from={source_lang}&to=it&view=final"
        async with websockets.connect(peer) as ws:
            await ws.send(json.dumps({"type": "say", "id": "u", "text": text}))
            async for frame in ws:
                event = json.loads(frame)
                if event["type"] == "final":
                    assert (event["id"], event["text"]) == ("u", f"[it] {text}")
                    break
