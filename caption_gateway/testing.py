"""The public names for tests: `EngineContract` for engines, `ScriptedEngine` for clients."""

import pytest

# A failed assertion then shows its values, as in a test of one's own.
pytest.register_assert_rewrite("gateway.engines.testing.contract")

from gateway.engines.scripted import ScriptedEngine, failing  # noqa: E402
from gateway.engines.testing.contract import EngineContract  # noqa: E402
from gateway.engines.testing.subject import EngineSubject, RecordingSink  # noqa: E402

__all__ = ["EngineContract", "EngineSubject", "RecordingSink", "ScriptedEngine", "failing"]
