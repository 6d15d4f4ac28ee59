"""The same examples on every run: what fails here fails for everybody.

``HYPOTHESIS_PROFILE=search`` looks for new ones, and for longer.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "check",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search", settings.get_profile("check"), derandomize=False, max_examples=5_000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "check"))
