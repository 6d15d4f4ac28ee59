"""The public names for authors of an engine; `docs/how-to/write-engine.md` shows how."""

from gateway.engines.base.engine import (
    Aborted,
    Engine,
    EngineWrapper,
    ModelEngine,
    PullEngine,
    Sink,
    SinkWrapper,
    refuse,
)
from gateway.engines.base.service import Health
from gateway.engines.profiles import Profile
from gateway.errors import EngineFault, EngineGone, JobFault, Overloaded
from gateway.job import Chunk, Job, Priority

__all__ = [
    "Aborted",
    "Chunk",
    "Engine",
    "EngineFault",
    "EngineGone",
    "EngineWrapper",
    "Health",
    "Job",
    "JobFault",
    "ModelEngine",
    "Overloaded",
    "Priority",
    "Profile",
    "PullEngine",
    "Sink",
    "SinkWrapper",
    "refuse",
]
