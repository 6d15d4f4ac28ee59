"""Traces of a gateway process, as a collector receives them over OTLP/HTTP."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2 as httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from websockets.asyncio.client import connect

from tests.server.started import SCRIPTED, gateway
from tests.support.talk import Talk

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
SAID = "Мы увольняем Ивана Петровича"


class Collector:
    """An OTLP receiver. ``bodies`` are the requests by path, without their compression."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[bytes]] = {}
        self.url = ""

    @property
    def spans(self) -> list[Any]:
        requests = map(ExportTraceServiceRequest.FromString, self.bodies.get("/v1/traces", ()))
        scopes = [s for r in requests for one in r.resource_spans for s in one.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    @property
    def resource(self) -> dict[str, str]:
        request = ExportTraceServiceRequest.FromString(self.bodies["/v1/traces"][0])
        attributes = request.resource_spans[0].resource.attributes
        return {one.key: one.value.string_value for one in attributes}


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # http.server calls it so
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            collector.bodies.setdefault(self.path, []).append(body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_collector_receives_the_traces_of_a_gateway_that_ends() -> None:
    with (
        collecting() as collector,
        gateway(
            *SCRIPTED,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
            OTEL_SERVICE_NAME="captions",
        ) as process,
    ):
        address = f"127.0.0.1:{process.port}"
        url = f"ws://{address}/v1/ws?room=board&from=ru&to=de&speaker=Иван"
        async with connect(url, additional_headers=HEADERS) as socket:
            talk = Talk(socket)
            await talk.send({"type": "say", "id": "u1", "text": SAID})
            await talk.until("final")
        async with httpx.AsyncClient(base_url=f"http://{address}", headers=HEADERS) as client:
            body = {"text": SAID, "source_lang": "ru", "target_lang": "de"}
            assert (await client.post("/v1/translate", json=body)).status_code == 200
        process.popen.terminate()  # the last spans are sent before the process ends
        assert process.popen.wait() == 0
    roots = [span for span in collector.spans if span.name == "utterance"]
    linked, child = sorted(roots, key=lambda span: bool(span.parent_span_id))
    assert linked.links[0].trace_id.hex() == TRACE and not linked.parent_span_id
    assert (child.trace_id.hex(), child.parent_span_id.hex()) == (TRACE, PARENT)
    names = [span.name for span in collector.spans if span.trace_id == linked.trace_id]
    expected = ["caption", "engine", "fan-out", "queue", "speech", "utterance"]
    assert sorted(names) == expected
    attributes = {one.key: one.value.string_value for one in linked.attributes}
    assert (attributes["gateway.room"], attributes["gateway.utterance"]) == ("board", "u1")
    assert collector.resource["service.name"] == "captions"
    assert collector.resource["service.instance.id"]
    assert [*collector.bodies] == ["/v1/traces"], "metrics are scraped, and not exported"
    sent = b"".join(body for bodies in collector.bodies.values() for body in bodies)
    for word in (*SAID.split(), "Иван"):
        assert word.encode() not in sent
