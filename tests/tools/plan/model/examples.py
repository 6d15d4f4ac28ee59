"""Loads and figures that several tests of `gateway plan` use."""

from __future__ import annotations

from caption_tools.plan.model.capacity import CapacityPlan, capacity
from caption_tools.plan.model.figures import REDIS, CoreFigures, EngineFigures, EngineShare
from caption_tools.plan.model.load import CaptionWork, MeetingLoad

WORK = CaptionWork(parts=1.0, words=16.0, typical=14.0, long=36.0, partials=4.0, made=48.0)
CORE = CoreFigures(source="a test", event_us=100.0, frame_us=10.0, frame_bytes=100.0)


def engine(slots: int = 8, *, tokens_s: float = 400.0) -> EngineFigures:
    """Return an engine whose jobs take 20 ms a token, as long as it keeps up."""
    return EngineFigures(
        source="a test", slots=slots, first_ms=20, token_ms=20, tokens_s=tokens_s, job=20
    )


def planned(
    load: MeetingLoad | None = None,
    work: CaptionWork = WORK,
    figures: EngineFigures | None = None,
    core: CoreFigures = CORE,
) -> CapacityPlan:
    """Return the plan of a load."""
    load = load or MeetingLoad()
    return capacity(load, work, [whole(load, figures)], core, REDIS)


def whole(load: MeetingLoad, figures: EngineFigures | None = None) -> EngineShare:
    """Return the only engine of a plan."""
    return EngineShare(figures=figures or engine(), languages=load.languages)
