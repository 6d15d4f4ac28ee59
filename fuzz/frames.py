"""Frames of one socket, valid or not, into a session of a room with another reader.

Promises: a frame is accepted or refused by a code and never raises; everything that is sent can be
decoded; the text on a screen stays consistent; every requested caption ends.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fuzz.tape import Tape
from gateway.auth.permissions import Role
from gateway.core.streaming.options import StreamingOptions
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import Codec, decode, reference
from gateway.protocol.messages import REQUESTS
from tests.support.meeting import EAGER, Meeting

LIMITS = Limits(rate=1e6, burst=1_000_000, inflight=4, targets=4, queue=8)
TYPES = (*(str(request.__struct_config__.tag) for request in REQUESTS), "nope", "")
FIELDS: dict[str, tuple[Any, ...]] = {
    "text": ("good morning", "", "a b c. d e f", "\u202e\0", "x" * 2001, 5, None, ["a"]),
    "id": ("s1", "s1.2", "u1", "", "x" * 65, 0, None),
    "rev": (1, 2, 3, 0, -1, 2**63, 1.5, "1", None),
    "final": (True, False, None, 1),
    "lang": ("de", "fr", "en", "zh-Hant", "nonsense-xx", "", 1, None),
    "langs": ([], ["de"], ["fr", "de"], ["de"] * 20, "de", [None], None),
    "view": ("live", "stable", "final", "all", None),
    "backfill": (0, 1, 10**9, -1, "1", None),
    "from": ("auto", "en", "de", "??", None),
    "context": ("a meeting", "", "x" * 4001, None),
    "glossary": (
        {"good": "gut"},
        {"good": {"de": "gut", "??": "", "fr": "bon"}},
        {},
        {"": ""},
        {"a": 1},
        {"a": {"de": {}}},
        [["a", "b"]],
        None,
    ),
    "speaker": ("Ann", "", "x" * 129, None),
    "epoch": ("epoch", "other", "", 1, None),
    "seq": (0, 1, 2**53, -1, "0", None),
    "token": ("", "gw.x.y", None),
    "ref": ("r", "", "x" * 129, 1, None),
    "t0": (0, 1.5, -1, 1e308, "0", None),
}
"""Values for fields that react to more than the type."""
OTHER: tuple[Any, ...] = ("word", "", "x" * 4001, 1, 2.5, -1, ["a"], None)
"""Values for every other field."""
NAMES = tuple(sorted({name for kind in REQUESTS for name in kind.__struct_encode_fields__}))


def message(tape: Tape) -> dict[str, Any]:
    """Return something like a request."""
    fields: dict[str, Any] = {"type": tape.pick(TYPES)}
    for _ in range(tape.byte() % 6):
        name = tape.pick(NAMES)
        values = FIELDS.get(name, OTHER)
        fields[name] = tape.pick((*values, tape.text() if tape.byte() % 8 == 7 else values[0]))
    return fields


def frame(tape: Tape) -> str | bytes:
    """Return a frame: any bytes, or something like a request, perhaps with a byte changed."""
    kind = tape.byte() % 6
    if kind == 0:
        return tape.chunk()
    if kind == 1:
        return tape.text()
    whole: bytes = (msgspec.json if kind % 2 else msgspec.msgpack).encode(message(tape))
    if tape.byte() % 4 == 3:
        at = tape.byte() % len(whole)
        whole = whole[:at] + tape.take(1) + whole[at + 1 + tape.byte() % 2 :]
    return whole.decode(errors="replace") if kind % 2 else whole


def refused(given: str | bytes) -> bool:
    """Return whether a frame is invalid; its fault then has a code."""
    try:
        assert isinstance(decode(given), REQUESTS)
    except ClientFault as fault:
        assert fault.code in (ErrorCode.BAD_FRAME, ErrorCode.UNKNOWN_TYPE)
        for name in reference(given):
            assert name is None or len(name) <= 128
        return True
    return False


def one(data: bytes) -> None:
    """Play one input."""
    tape = Tape(data)
    meeting = Meeting(
        "en", "de", "fr", "zh-Hant", limits=LIMITS, options=tape.pick((EAGER, StreamingOptions()))
    )
    role = tape.pick((Role.SPEAK, Role.MODERATE, Role.VIEW))
    peer = meeting.enter("de", role=role, codec=tape.pick((Codec.JSON, Codec.MSGPACK)))
    reader = meeting.enter("de", "fr", role=Role.VIEW)
    while tape and peer.session.outbox.closing is None:
        match tape.byte() % 8:
            case 0:
                meeting.wait(tape.byte() / 16)
            case 1:
                jobs = list(meeting.jobs.values())
                if jobs:
                    meeting.feed(tape.pick(jobs), tape.text(), reset=tape.byte() % 4 == 3)
            case 2:
                jobs = list(meeting.jobs.values())
                if jobs:
                    (meeting.fail if tape.byte() % 4 == 3 else meeting.finish)(tape.pick(jobs))
            case _:
                given = frame(tape)
                refused(given)
                peer.frame(given)
        reader.events()
    peer.close()
    meeting.finish_all()
    meeting.wait(100.0)
    meeting.finish_all()
    reader.events()
    for utterance in meeting.room.utterances.by_id.values():
        assert utterance.ended, utterance
    assert not meeting.room.captioner.jobs
    assert meeting.scheduler.queued == meeting.scheduler.running == 0
