"""How growing captions flow: the numbers of the three stages, together.

Owns: nothing but the bundle. Each stage's numbers stand, with their reasons, where it is.
"""

from __future__ import annotations

import msgspec

from gateway.core.streaming.segmentation import SegmentLengths
from gateway.core.streaming.source import PartialTiming
from gateway.core.streaming.target import StabilityRules


class StreamingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When growing text is translated, where it is cut, what of the translation is shown."""

    pace: PartialTiming = PartialTiming()
    lengths: SegmentLengths = SegmentLengths()
    stability: StabilityRules = StabilityRules()
