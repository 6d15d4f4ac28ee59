"""How growing captions flow: the numbers of the three stages, together.

Owns: nothing but the bundle. Each stage's numbers stand, with their reasons, where it is.
"""

from __future__ import annotations

import msgspec

from gateway.admission import Pace
from gateway.segment import Lengths
from gateway.stability import Stability


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """When growing text is translated, where it is cut, what of the translation is shown."""

    pace: Pace = Pace()
    lengths: Lengths = Lengths()
    stability: Stability = Stability()
