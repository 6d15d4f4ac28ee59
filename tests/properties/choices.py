"""The choices of any meeting: the texts, languages, frames and options that a tape picks from."""

from __future__ import annotations

from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.partials import PartialTiming
from gateway.core.streaming.segmentation import SegmentLengths
from gateway.core.streaming.stability import StabilityRules
from gateway.limits import Limits
from gateway.protocol.messages import View
from tests.support.meeting import EAGER

LIMITS = Limits(
    inflight=3,
    targets=3,
    queue=5,
    utterances=4,
    backfill=3,
    linger_s=6.0,
    log=1_000,
    bad_frames=4,
    rate=1e6,
    burst=1_000_000,
    outbox_bytes=24_000,
)
PATIENCE = 10.0
SHORT = StreamingOptions(
    pace=PartialTiming(repeats=1),
    lengths=SegmentLengths(least=2, clause=2, most=3, hard=4, behind=1),
    stability=StabilityRules(hold=0, mask=1, agree=2),
)
"""Options under which growing text is cut after a few words."""
FLOWS = (EAGER, StreamingOptions(), SHORT)
LANGS = ("de", "fr", "en", "de-AT", "es", "xx-nonsense")
TEXTS = ("a", "a b", "a b c", "b", "a x", "", "\u200b \n", "e\u0301")
SPEECH = "So we met. In March, and it was cold but we went on. Then".split()
PIECES = ("a", " b", "", " c", "[de]", "\U0001f600")
VIEWS: tuple[View | None, ...] = (None, "live", "stable", "final")
JUNK: tuple[str | bytes, ...] = (
    "{",
    b"",
    b"\xc1",
    '{"type":"sync","seq":1}',
    '{"type":"nope"}',
    '{"type":"say","text":5}',
    "\ud800",
    '{"type":"cancel"}',
    '{"type":"say","text":"a","rev":0}',
    b"\x81\xa4type\xa3bye\x00",
)
