"""Traces of utterances, built from the events of rooms.

Owns: the spans of an utterance, their names and attributes. Must not know: how spans are exported.

Every span is made after the fact, with the times that the core has noted. So a delta costs nothing,
and an utterance costs a few spans when its captions end::

    utterance                   from the first frame to the end of the last caption
      speech                    from the first frame until the whole original was sent to all
      caption                   one per language
        queue                   until the engine was given the job
        engine                  until the end of the job, with an event at the first text
        fan-out                 until the last reader's socket or outbox has the end of the caption

A caption that is made for readers who came later begins a trace of its own, ``backfill``.

Attributes are ids, languages, counts and codes. Texts, names of speakers and glossaries are private
and never among them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.core.utterances.caption_state import CaptionState
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.errors import redacted
from gateway.protocol.messages import Cancelled, Failed, Final, ServerMessage, Source
from gateway.server.runtime.hub import Hub

log = logging.getLogger("gateway.tracing")

CaptionEnd = Final | Failed | Cancelled
"""Events that end captions."""

OPEN = 10_000
"""Most traces that have not ended. A room that ends with captions in progress leaves its traces
open; the oldest trace is ended when there are more."""
SPARE = 1_000
"""Sessions beyond the open ones whose trace context is kept, before the closed ones are dropped."""
CARRIED = ("traceparent", "tracestate")
"""Headers of W3C Trace Context, https://www.w3.org/TR/trace-context/."""


class _OpenTrace:
    """The trace of an utterance that has not ended. The offset from the hub's clock to the time
    since the epoch is in seconds.
    """

    __slots__ = ("at", "context", "ending", "offset", "reported", "root")

    def __init__(self, root: Span, offset: float) -> None:
        self.root = root
        self.context = trace.set_span_in_context(root, Context())
        self.offset = offset
        self.reported: set[str] = set()  # languages whose captions have a span
        self.at = 0.0  # time of the last event, in seconds of the hub's clock
        self.ending = False
        """True if the end of the trace is to be checked in the next turn of the event loop."""

    def ns(self, at: float) -> int:
        """Return a time of the hub's clock in nanoseconds since the epoch."""
        return round((at + self.offset) * 1e9)


class UtteranceTracer:
    """The tracer of one hub."""

    def __init__(self, tracer: Tracer, hub: Hub) -> None:
        self._tracer = tracer
        self._hub = hub
        self._open: dict[Utterance, _OpenTrace] = {}
        self._connections: dict[str, tuple[Context, bool]] = {}

    def connected(self, session: str, headers: Mapping[str, str], *, once: bool = False) -> None:
        """Note the trace context of the request that opened a session.

        :param once: the session serves this one request, so its utterances are part of the
            request's trace. A socket may stay open for hours: traces of its utterances have a link.
        """
        self._connections.pop(session, None)
        carrier = {name: value for name in CARRIED if (value := headers.get(name))}
        context = TraceContextTextMapPropagator().extract(carrier, Context())
        if not trace.get_current_span(context).get_span_context().is_valid:
            return
        if len(self._connections) > len(self._hub.sessions) + SPARE:
            known = self._connections.items()
            self._connections = {id: kept for id, kept in known if id in self._hub.sessions}
        self._connections[session] = (context, once)

    def observe(self, room: str, event: ServerMessage, now: float) -> None:
        """Make the spans of an event that a room decided at ``now`` and has sent to its readers."""
        if not isinstance(event, Source | CaptionEnd):
            return
        # It never raises, because a fault here must not end a caption.
        try:
            live = self._hub.rooms.get(room)
            utterance = None if live is None else live.utterances.by_id.get(event.id)
            if utterance is not None:
                self._add(room, utterance, event, now)
        except Exception as exc:
            log.error("an utterance could not be traced", exc_info=redacted(exc))

    def end_all(self) -> None:
        """End all traces that are open."""
        while self._open:
            self._end_oldest()

    # --- inside -----------------------------------------------------------------------------------

    def _add(self, room: str, utterance: Utterance, event: Source | CaptionEnd, now: float) -> None:
        entry = self._open.get(utterance)
        if entry is None:
            entry = self._begin(room, utterance, event)
        entry.at = told = self._hub.now()
        if entry.root.is_recording():
            if isinstance(event, Source):
                entry.root.set_attribute("gateway.characters", len(event.text))
                self._span(entry, "speech", utterance.began, told)
            elif event.lang is None:
                for caption in utterance.captions.values():
                    if caption.state is CaptionState.CANCELLED:
                        self._caption(entry, caption, event, now, told)
            elif (ended := utterance.captions.get(event.lang)) is not None:
                self._caption(entry, ended, event, now, told)
        # Captions in other languages may be added in this turn of the event loop.
        if utterance.ended and not entry.ending:
            entry.ending = True
            asyncio.get_running_loop().call_soon(self._check_end, utterance)

    def _begin(self, room: str, utterance: Utterance, event: Source | CaptionEnd) -> _OpenTrace:
        """Begin the trace of an utterance, or of a caption that is made after its end."""
        name, began = "utterance", utterance.began
        if utterance.final and not isinstance(event, Source) and event.lang is not None:
            made = utterance.captions.get(event.lang)
            name, began = "backfill", 0.0 if made is None else made.queued_at
        context, once = self._connections.get(utterance.author, (Context(), False))
        connection = trace.get_current_span(context).get_span_context()
        offset = self._hub.wall() - self._hub.now()
        attributes: dict[str, str] = {
            "gateway.room": room,
            "gateway.session": utterance.author,
            "gateway.utterance": utterance.id,
            "gateway.source_lang": utterance.lang,
            "gateway.engine": self._hub.engine.name,
        }
        root = self._tracer.start_span(
            name,
            context if once else Context(),
            SpanKind.SERVER,
            attributes,
            links=() if once or not connection.is_valid else (Link(connection),),
            start_time=round(((began or self._hub.now()) + offset) * 1e9),
        )
        if len(self._open) >= OPEN:
            self._end_oldest()
        entry = self._open[utterance] = _OpenTrace(root, offset)
        return entry

    def _caption(
        self, entry: _OpenTrace, caption: Caption, event: CaptionEnd, now: float, told: float
    ) -> None:
        """Make the spans of a caption that ended at ``now``."""
        if caption.lang in entry.reported:
            return
        entry.reported.add(caption.lang)
        queued, started, first = caption.queued_at, caption.started_at, caption.first_at
        outer = self._tracer.start_span(
            "caption",
            entry.context,
            attributes={"gateway.target_lang": caption.lang, **_outcome(event)},
            start_time=entry.ns(queued or now),
        )
        if isinstance(event, Failed):
            outer.set_status(Status(StatusCode.ERROR, event.code))
        context = trace.set_span_in_context(outer, Context())
        if queued:
            self._span(entry, "queue", queued, started or now, context)
        if started:
            engine = self._tracer.start_span("engine", context, start_time=entry.ns(started))
            if first:
                engine.add_event("first delta", timestamp=entry.ns(first))
            engine.end(entry.ns(now))
        self._span(entry, "fan-out", now, told, context)
        outer.end(entry.ns(told))

    def _span(
        self, entry: _OpenTrace, name: str, begin: float, end: float, context: Context | None = None
    ) -> None:
        parent = entry.context if context is None else context
        span = self._tracer.start_span(name, parent, start_time=entry.ns(begin))
        span.end(entry.ns(end))

    def _check_end(self, utterance: Utterance) -> None:
        entry = self._open.get(utterance)
        if entry is not None:
            entry.ending = False
            if utterance.ended:
                del self._open[utterance]
                entry.root.end(entry.ns(entry.at))

    def _end_oldest(self) -> None:
        entry = self._open.pop(next(iter(self._open)))
        entry.root.end(entry.ns(entry.at))


def _outcome(event: CaptionEnd) -> dict[str, Any]:
    """Return the attributes that tell how a caption ended."""
    match event:
        case Final():
            flags = {"gateway.flags": event.flags} if event.flags else {}
            return {"gateway.outcome": "final", "gateway.by": event.by, **flags}
        case Failed():
            return {"gateway.outcome": "failed", "error.type": event.code}
        case _:
            return {"gateway.outcome": "cancelled", "gateway.was": event.was}
