"""The query of a socket, and an example of every message, for the schemas.

Owns: what the schemas show and no struct says. Must not know: JSON Schema, AsyncAPI.
"""

from __future__ import annotations

from typing import Any

from gateway.protocol.audio import Audio, AudioChunk, AudioInfo, AudioState, HeardSpeech
from gateway.protocol.fields import LimitsInfo
from gateway.protocol.handshake import ROOM_PATTERN
from gateway.protocol.messages import (
    VERSION,
    Ack,
    AskHelp,
    AskStats,
    Auth,
    Bye,
    Cancel,
    Cancelled,
    ClientMessage,
    Delta,
    Edit,
    Edited,
    Failed,
    Final,
    Get,
    Line,
    Resumed,
    Retract,
    Retracted,
    Say,
    ServerMessage,
    Set,
    Settings,
    Snapshot,
    Source,
    Sync,
    Synced,
    Timing,
    Want,
    Welcome,
)
from gateway.protocol.notices import (
    Authenticated,
    Degraded,
    Error,
    Goaway,
    Help,
    Lag,
    Presence,
    Stats,
    Tick,
)

Json = dict[str, Any]
"""A JSON object."""

# The query has no struct: it is read by `gateway.server.routes.websocket`.
QUERY: dict[str, Json] = {
    "room": {
        "type": "string",
        "pattern": ROOM_PATTERN,
        "description": "Room to join. Without it the socket gets a private room.",
    },
    "role": {
        "type": "string",
        "enum": ["speak", "view", "moderate"],
        "default": "speak",
        "description": "Role of this socket. Every role may read.",
    },
    "from": {
        "type": "string",
        "description": "BCP 47 tag of the language that this socket speaks, or `auto` to detect it "
        "for each text. Several tags, with commas, restrict the detection to these languages.",
    },
    "to": {
        "type": "string",
        "description": "Comma-separated BCP 47 tags of the languages that this socket reads.",
    },
    "view": {
        "type": "string",
        "enum": ["live", "stable", "final"],
        "default": "live",
        "description": "How much of an unfinished caption is sent to this socket.",
    },
    "speaker": {"type": "string", "maxLength": 128, "description": "Display name."},
    "ticket": {
        "type": "string",
        "description": "A ticket from `POST /v1/tickets`, valid once, for clients that cannot send "
        "a key.",
    },
    "hb": {
        "type": "number",
        "minimum": 1,
        "description": "Seconds between `tick` events, for clients that cannot see pings. "
        "The maximum is 300; larger values are lowered to it.",
    },
    "resume": {
        "type": "string",
        "description": "`welcome.resume` of an earlier socket, whose place this one takes. Session "
        "and room are taken over, and every parameter that the query leaves out.",
    },
    "attempt": {
        "type": "integer",
        "minimum": 0,
        "description": "Number of this client's attempt to reconnect, together with `resume`. "
        "A socket does not take the place of one with a higher number.",
    },
    "epoch": {
        "type": "string",
        "maxLength": 64,
        "description": "`epoch` of the events that the client has, together with `seq`.",
    },
    "seq": {
        "type": "integer",
        "minimum": 0,
        "description": "Number of the last event that the client has. Later events are sent again.",
    },
    "plain": {
        "type": "string",
        "enum": ["0", "1"],
        "default": "0",
        "description": "`1`: the server writes plain lines, and finished captions only. "
        "No effect if the client offers a sub-protocol.",
    },
}
"""Query parameters of `SOCKET_PATH`."""

EXAMPLES: tuple[ClientMessage | ServerMessage, ...] = (
    Say(text="Good morning everybody"),
    Say(id="s7", rev=2, text="We meet again on", final=False, lang="en", ref="a1"),
    Audio(codec="pcm_s16le", rate=48000, from_="en,de", ref="b1"),
    Audio(codec="none", ref="b2"),
    AudioChunk(data=bytes(6)),
    Cancel(id="s7", ref="a2"),
    Want(langs=("de", "fr"), view="stable"),
    Want(langs=("de", "fr", "es"), backfill=5),
    Set(glossary={"standup": "Standup"}, ref="a3"),
    Edit(id="u12", lang="de", text="Guten Morgen allerseits", ref="a6"),
    Retract(id="u12", ref="a7"),
    Get(id="s7"),
    Sync(epoch="9a41c07e", seq=40, ref="a9"),
    Auth(token="gwk_4f1d0c2a_...", ref="a8"),
    AskStats(ref="a4"),
    AskHelp(),
    Bye(),
    Welcome(
        v=VERSION,
        session="c2f1",
        room="demo",
        epoch="9a41c07e",
        seq=38,
        resume="k6ZyZXN1bWXL.Nq8vXw",
        engine="scripted",
        languages=("de", "en", "fr"),
        limits=LimitsInfo(frame=65536, text=2000, inflight=16, targets=16, rate=50.0),
    ),
    Welcome(
        v=VERSION,
        session="c2f1",
        room="demo",
        epoch="9a41c07e",
        seq=40,
        resume="k6ZyZXN1bWXL.x1T0Kg",
        engine="scripted",
        languages=("de", "en", "fr"),
        limits=LimitsInfo(frame=65536, text=2000, inflight=16, targets=16, rate=50.0),
        resumed=Resumed(ok=True, replayed=2),
    ),
    Welcome(
        v=VERSION,
        session="c2f1",
        room="demo",
        epoch="9a41c07e",
        seq=0,
        resume="k6ZyZXN1bWXL.p3Rm2w",
        engine="scripted",
        languages=("de", "en", "fr"),
        limits=LimitsInfo(frame=65536, text=2000, inflight=16, targets=16, rate=50.0),
        audio=AudioInfo(
            codecs=("pcm_s16le", "opus"),
            rates=(8000, 48000),
            languages=("de", "en"),
            recogniser="whisper:base",
            rate=8.0,
            burst=10.0,
            window=50.0,
        ),
    ),
    Ack(id="u12", rev=1, ord=12),
    AudioState(codec="pcm_s16le", rate=48000, from_="en,de", seconds=0.0, ref="b1"),
    AudioState(codec="none", rate=48000, from_="en,de", seconds=63.4, ref="b2"),
    HeardSpeech(id="5d1c-1", rev=2, lang="en", text="We meet again on", t0=1.2, t1=2.6),
    HeardSpeech(
        id="5d1c-1",
        rev=3,
        lang="en",
        text="We meet again on Monday.",
        t0=1.2,
        t1=3.0,
        final=True,
    ),
    Source(seq=39, id="u12", rev=1, ord=12, lang="en", text="Good morning everybody"),
    Delta(id="u12", rev=1, lang="de", add="Guten", n=5),
    Delta(id="u12", rev=1, lang="de", add=" Morgen zusammen", n=21),
    Delta(id="s7", rev=2, lang="de", draft="Wir treffen uns wieder", n=0),
    Final(
        seq=40,
        id="u12",
        rev=1,
        ord=12,
        lang="de",
        text="Guten Morgen zusammen",
        by="mt",
        ms=Timing(queue=1, first=22, total=95),
    ),
    Final(
        seq=47,
        id="5d1c-1",
        rev=3,
        ord=15,
        lang="de",
        text="Wir treffen uns am Montag wieder.",
        by="mt",
        ms=Timing(queue=2, first=31, total=120),
        t0=1.2,
        t1=3.0,
    ),
    Failed(seq=41, id="u13", rev=1, ord=13, lang="fr", code="timeout", retry=True),
    Cancelled(seq=42, id="s7", rev=2, was="running", ref="a2"),
    Edited(
        seq=45,
        id="u12",
        rev=1,
        ord=12,
        lang="de",
        text="Guten Morgen allerseits",
        by="human",
        ref="a6",
    ),
    Retracted(seq=46, id="u12", ord=12, ref="a7"),
    Settings(seq=43, version=1, glossary={"standup": "Standup"}, session="c2f1", ref="a3"),
    Snapshot(
        id="u12",
        rev=1,
        ord=12,
        lang="en",
        text="Good morning everybody",
        final=True,
        lines=(Line(lang="de", state="final", text="Guten Morgen zusammen", by="mt"),),
    ),
    Synced(epoch="9a41c07e", seq=40, ok=True, replayed=2, ref="a9"),
    Authenticated(name="board", until=1893456000.0, ref="a8"),
    Stats(
        said=3,
        finals=1,
        failed=1,
        cancelled=1,
        errors=0,
        frames_in=8,
        frames_out=12,
        bytes_out=1436,
        merged=0,
        inflight=0,
        seconds=61.204,
        ref="a4",
    ),
    Help(types={"say": '{"type":"say","text":"good morning"}  say a line'}),
    Presence(readers={"de": 2, "fr": 1}, members=4, speakers=("Ann", "Ben")),
    Tick(seq=43),
    Degraded(partials="off", engine="ctranslate2:embedded"),
    Lag(dropped=40, ms=2300),
    Goaway(in_ms=10000, why="restart"),
    Error(
        code="lang_unsupported",
        fatal=False,
        retry=False,
        ref="a5",
        msg="This engine does not have 'tlh'.",
        hint="It has: de, en, fr.",
    ),
)
"""Examples of every message. All of them are on the pages about the protocol too."""
