"""The public names for tests: `EngineContract` for engines, `ScriptedEngine` for clients."""

import pytest

# A failed assertion then shows its values, as in a test of one's own.
pytest.register_assert_rewrite("caption_gateway.testing.contract")

from caption_gateway.testing.contract import EngineContract  # noqa: E402
from caption_gateway.testing.subject import EngineSubject, RecordingSink  # noqa: E402
from gateway.engines.scripted import ScriptedEngine, failing  # noqa: E402

__all__ = ["EngineContract", "EngineSubject", "RecordingSink", "ScriptedEngine", "failing"]
