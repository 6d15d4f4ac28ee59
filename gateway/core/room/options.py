"""The arguments of a room that all rooms of one process are made with.

Owns: their types. Must not know: what a room does with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from gateway.core.base.model import Model
from gateway.core.scheduling.scheduler import Scheduler
from gateway.core.streaming.options import StreamingOptions
from gateway.limits import Limits
from gateway.protocol.messages import ServerMessage


class RoomOptions(TypedDict):
    """The arguments of `gateway.core.room.room.Room` besides its name and log."""

    scheduler: Scheduler
    model: Model
    limits: Limits
    options: StreamingOptions
    observe: Callable[[ServerMessage, float], None]
    set_timer: Callable[[float], None]
