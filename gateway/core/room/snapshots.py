"""Snapshots of utterances, for readers who come late, return or ask.

Owns: the fields of a snapshot. Must not know: sockets, when a member is sent one, the log as
readers see it (`gateway.core.room.abstract_room`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gateway.auth.permissions import EVERYTHING, Permissions
from gateway.core.captions.captioner import Captioner
from gateway.core.members.attendance import Attendance
from gateway.core.members.subscribers import Subscribers
from gateway.core.utterances.caption_state import CaptionState
from gateway.core.utterances.collection import Utterances
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.protocol.codec import Envelope
from gateway.protocol.fields import stated
from gateway.protocol.messages import Delta, Line, Snapshot, View


class Snapshots(msgspec.Struct, eq=False):
    """The state of one room as its members are told it. Every method only reads."""

    utterances: Utterances
    subscribers: Subscribers
    attendance: Attendance
    captioner: Captioner

    # --- captions that are being made ------------------------------------------------------------

    def in_flight(self, tags: Iterable[str], view: View) -> list[Envelope]:
        """Return snapshots of the utterances that have an unfinished caption in one of ``tags``."""
        if view == "final":
            return []
        tagged = self.subscribers.serving(tags)
        snapshots = []
        for utterance in self._in_progress():
            read = [(tag, utterance.captions.get(served)) for tag, served in tagged]
            captions = [(tag, caption) for tag, caption in read if caption is not None]
            # Captions that have ended were sent from the log.
            if any(not caption.state.ended for _, caption in captions):
                lines = tuple(_line(tag, caption, view) for tag, caption in captions)
                snapshots.append(Envelope(_snapshot(utterance, lines)))
        return snapshots

    def growing(self, lang: str) -> list[Delta]:
        """Return the visible texts of the unfinished captions in a language, oldest first."""
        shown = []
        for utterance in self._in_progress():
            caption = utterance.captions.get(lang)
            delta = None if caption is None or caption.state.ended else caption.full_delta()
            if delta is not None:
                shown.append(delta)
        return shown

    # --- single utterances ----------------------------------------------------------------------

    def snapshot(
        self, id: str, ref: str | None = None, permissions: Permissions = EVERYTHING
    ) -> Snapshot:
        """Return one utterance as it stands, as far as a reader may see it. Raises `ClientFault`
        (``not_found``).
        """
        utterance = self.utterances.known(id)
        lines = tuple(
            _line(lang, caption, "live")
            for lang, caption in sorted(utterance.captions.items())
            if permissions.can_read(lang)
        )
        return _snapshot(utterance, lines, ref)

    def finished(self, tags: dict[str, str], utterances: Iterable[Utterance]) -> list[Envelope]:
        """Return the final captions of some utterances, in their order.

        :param tags: a reader's tags, each with the language that serves it
        """
        snapshots = []
        for utterance in utterances:
            for tag, served in reversed(tags.items()):
                caption = utterance.captions.get(served)
                if caption is not None and caption.state is CaptionState.FINAL:
                    lines = (_line(tag, caption, "live"),)
                    snapshots.append(Envelope(_snapshot(utterance, lines)))
        return snapshots

    # --- inside ---------------------------------------------------------------------------------

    def _in_progress(self) -> list[Utterance]:
        """Return the utterances that captions are being made of, in order of their begin. Some of
        them have ended: a language that is new to the room is backfilled.
        """
        utterances = {
            *self.attendance.unfinished(),
            *(sink.utterance for sink in self.captioner.jobs.values()),
        }
        return sorted(utterances, key=lambda utterance: utterance.ord)


def _snapshot(utterance: Utterance, lines: tuple[Line, ...], ref: str | None = None) -> Snapshot:
    return Snapshot(
        id=utterance.id,
        rev=utterance.rev,
        ord=utterance.ord,
        lang=utterance.lang,
        text=utterance.text,
        final=utterance.final,
        lines=lines,
        **stated(utterance.statement, Snapshot),
        ref=ref,
    )


def _line(tag: str, caption: Caption, view: View) -> Line:
    return Line(
        lang=tag,
        state=caption.state.value,
        text=caption.stable,
        draft=caption.draft or None if view == "live" else None,
        by=caption.by,
    )
