"""Options of the three stages of a growing caption.

Owns: only the bundle. Each stage has its own numbers, with their reasons.
"""

from __future__ import annotations

import msgspec

from gateway.core.streaming.partials import PartialTiming
from gateway.core.streaming.segmentation import SegmentLengths
from gateway.core.streaming.stability import StabilityRules


class StreamingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for when growing text is translated, where it is cut, and how much is shown."""

    pace: PartialTiming = PartialTiming()
    lengths: SegmentLengths = SegmentLengths()
    stability: StabilityRules = StabilityRules()
