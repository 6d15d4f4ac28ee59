"""The life of a caption, as a table.

Owns: every state of a caption and every legal change. Must not know: texts, jobs.
"""

from __future__ import annotations

import enum

from gateway.core.base.transitions import Table


class CaptionState(enum.Enum):
    """States of a caption. The values are those of `Line.state` on the wire."""

    OPEN = "open"  # nothing to do until the source grows
    QUEUED = "queued"
    RUNNING = "running"
    FINAL = "final"
    FAILED = "failed"
    CANCELLED = "cancelled"

    def __init__(self, value: str) -> None:
        # An attribute and no property, because it is read for every caption after every job.
        self.ended = value in ("final", "failed", "cancelled")


class CaptionEvent(enum.Enum):
    """Events that change the state of a caption."""

    QUEUE = "queue"  # a job was submitted
    START = "start"  # the engine was given the job
    RELEASE = "release"  # the job of a partial ended, or a job was taken back
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"
    EDIT = "edit"  # the text was replaced


_S, _E = CaptionState, CaptionEvent

_END = {_E.FINISH: _S.FINAL, _E.FAIL: _S.FAILED, _E.CANCEL: _S.CANCELLED}

CAPTION_TRANSITIONS: Table[CaptionState, CaptionEvent] = {
    _S.OPEN: {_E.QUEUE: _S.QUEUED, _E.EDIT: _S.FINAL, **_END},
    _S.QUEUED: {_E.START: _S.RUNNING, _E.RELEASE: _S.OPEN, **_END},
    _S.RUNNING: {_E.RELEASE: _S.OPEN, **_END},
    # A person may write a caption that was never made.
    _S.FINAL: {_E.EDIT: _S.FINAL},
    _S.FAILED: {_E.EDIT: _S.FINAL},
    _S.CANCELLED: {_E.EDIT: _S.FINAL},
}
