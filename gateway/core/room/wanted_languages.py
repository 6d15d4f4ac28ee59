"""The captions that a room makes because somebody reads their language, or no longer makes.

Owns: what a member is shown when it begins to read a language, and which utterances are captioned
in it. Must not know: sockets, who speaks.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.core.captions.captioner import Captioner
from gateway.core.history.event_log import EventLog
from gateway.core.members.attendance import Attendance
from gateway.core.members.member import Member
from gateway.core.members.subscribers import Subscribers
from gateway.core.room import restore
from gateway.core.room.snapshots import Snapshots
from gateway.core.scheduling.timer import RoomTimer
from gateway.core.utterances.collection import Utterances
from gateway.core.utterances.utterance import Utterance
from gateway.limits import Limits
from gateway.protocol.messages import Want


class WantedLanguages:
    """The languages of one room.

    :param log: the log, from which the utterances were restored
    """

    def __init__(
        self,
        log: EventLog,
        limits: Limits,
        *,
        utterances: Utterances,
        subscribers: Subscribers,
        attendance: Attendance,
        captioner: Captioner,
        timer: RoomTimer,
    ) -> None:
        self.snapshots = Snapshots(utterances, subscribers, attendance, captioner)
        self._log = log
        self._most = limits.backfill
        self._utterances = utterances
        self._subscribers = subscribers
        self._attendance = attendance
        self._captioner = captioner
        self._timer = timer
        # A killed process had accepted these, so each caption has to end in some way.
        patience = 2 * limits.job_s
        self._interrupted = restore.interrupted(log, utterances.by_id.values(), patience)

    def change(self, member: Member, message: Want, now: float) -> None:
        """Change the languages and the view of a member.

        Utterances in flight are captioned in the new languages too. If that is done already, the
        member is sent what it missed. It is shown finished captions that it has not seen, and
        languages new to the room are backfilled when the engine has time.
        """
        langs, view, subscribers = message.langs, message.view, self._subscribers
        most = self._most if message.backfill is None else min(message.backfill, self._most)
        new = {tag: subscribers.served_by(tag) for tag in langs if tag not in member.langs}
        missing = set(new.values()) - subscribers.wanted
        other_view = view is not None and view != member.view
        if view is not None:
            member.view = view
        subscribers.change(member, langs, now)
        if member.welcomed:
            member.outbox.push_newest(self.snapshots.finished(new, self._recent(most)), now)
        # Another view shows another part of each caption, so all of them are sent again.
        shown = {tag: subscribers.served_by(tag) for tag in langs} if other_view else new
        # After the change above, so that the next delta continues what is shown here.
        for tag, lang in shown.items():
            for delta in self.snapshots.growing(lang):
                subscribers.catch_up(member, tag, delta, now)
        for utterance in self._attendance.unfinished():
            self._captioner.translate(utterance, subscribers.wanted, now)
        # Newest first: the newest utterances are to find the queue free.
        for utterance, lang in _without(missing, self._recent(most)):
            self._captioner.backfill(utterance, lang, now)
        standing = [u for u in self._interrupted if not (u.retracted or u.cancelled)]
        for utterance, lang in _without(missing, standing):
            if not self._captioner.backfill(utterance, lang, now):
                self._captioner.decline(utterance, lang, now)

    def expire(self, until: float, now: float) -> None:
        """Cancel captions in unread languages that linger no later than ``until``."""
        unread = self._subscribers.expire(until)
        if unread:
            lost: dict[Utterance, dict[str, None]] = {}
            unfinished = ((u, c) for u in self._attendance.unfinished() for c in u.active)
            for utterance, caption in (*unfinished, *self._captioner.in_progress(unread)):
                if caption.lang in unread:
                    lost.setdefault(utterance, {})[caption.lang] = None
            for utterance, langs in lost.items():
                self._captioner.cancel(utterance, tuple(langs), now)
        if (due := self._subscribers.due) is not None:
            self._timer.at(due)

    def _recent(self, most: int) -> list[Utterance]:
        """Return the last utterances that a newcomer is shown, newest first."""
        return self._utterances.known_of(self._log.standing(most))


def _without(langs: set[str], utterances: Iterable[Utterance]) -> Iterable[tuple[Utterance, str]]:
    """Yield each utterance with each of ``langs`` in which it has no caption."""
    for utterance in utterances:
        for lang in sorted(langs - utterance.captions.keys()):
            yield utterance, lang
