"""A meeting: its members, its utterances, and what members may do.

Owns: the rules of who may do what, and what follows for the room when members come and go. Must not
know: frames, sockets, tasks, clocks, how captions are made (`gateway.core.captions.captioner`) or
how they end (`gateway.core.captions.outcomes`).

The parts of a room form a graph without cycles; each calls only those below it::

    Room, Ingest, Snapshots     what members do, say and are told
    Captioner                   which caption waits for which job
    CaptionOutcomes             how captions end
    Publisher, Attendance       durable events; who is present or away
    Subscribers, Utterances     who reads what; what was said, by id

Bound: `Limits.utterances`; only members with utterances in flight are away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gateway.auth.permissions import Permissions, Role
from gateway.core.base.model import Model
from gateway.core.captions.captioner import Captioner
from gateway.core.captions.ingest import Ingest
from gateway.core.captions.outcomes import CaptionOutcomes
from gateway.core.history.event_log import EventLog
from gateway.core.history.log_view import LogView
from gateway.core.history.publisher import Publisher
from gateway.core.members.attendance import Attendance
from gateway.core.members.member import Member, Reply
from gateway.core.members.subscribers import Subscribers
from gateway.core.room import restore
from gateway.core.room.snapshots import Snapshots
from gateway.core.scheduling.scheduler import Scheduler
from gateway.core.scheduling.timer import RoomTimer
from gateway.core.streaming.options import StreamingOptions
from gateway.core.utterances.collection import Utterances
from gateway.core.utterances.utterance import Utterance
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import (
    Bye,
    Cancel,
    Cancelled,
    Edit,
    Get,
    Retract,
    Say,
    ServerMessage,
    Set,
    View,
)
from gateway.protocol.notices import Degraded
from gateway.text import languages

Request = Say | Cancel | Edit | Retract | Set | Get | Bye
"""Messages of clients that concern the utterances and settings of a room."""


class Room:
    """The state of one meeting. Every method takes the time in seconds and returns at once.

    :param log: an empty log, or that of an earlier process
    :param model: the languages that can be translated
    :param options: how growing text is treated
    :param observe: called with every durable event and the time at which it was decided
    :param set_timer: called with the time of the next `on_timer`, in place of any earlier one
    """

    def __init__(
        self,
        name: str,
        *,
        log: EventLog,
        scheduler: Scheduler,
        model: Model,
        limits: Limits,
        options: StreamingOptions | None = None,
        observe: Callable[[ServerMessage, float], None] = lambda *_: None,
        set_timer: Callable[[float], None] = lambda _: None,
    ) -> None:
        options = options or StreamingOptions()
        self.name = name
        self.log = log
        self.utterances = Utterances(name, options, limits)
        self.subscribers = self.new_subscribers(model.targets, limits.linger_s)
        self.log_view = LogView(log, self.subscribers)
        self.attendance = Attendance(self.subscribers.members, self.utterances)
        self._publisher = Publisher(log, self.subscribers, observe)
        self._outcomes = CaptionOutcomes(self._publisher, self.subscribers, self.attendance)
        self.captioner = Captioner(
            name,
            model=model,
            scheduler=scheduler,
            rules=options.stability,
            utterances=self.utterances,
            subscribers=self.subscribers,
            outcomes=self._outcomes,
        )
        self._timer = RoomTimer(set_timer)
        self._ingest = Ingest(
            name,
            utterances=self.utterances,
            subscribers=self.subscribers,
            captioner=self.captioner,
            outcomes=self._outcomes,
            scheduler=scheduler,
            timer=self._timer,
        )
        self.snapshots = Snapshots(
            self.utterances, self.subscribers, self.attendance, self.captioner
        )
        self.empty_since: float | None = None
        self.degraded: Degraded | None = None
        """State of the engine for those who join now; None if it works as usual."""
        self.temporary = False
        """True if nobody will come back to the room."""
        self.limits = limits
        self._announced = False
        self._announce_at: float | None = None
        for utterance in restore.utterances(log, options):
            self.utterances.restore(utterance)
        self._interrupted = restore.interrupted(
            log, self.utterances.by_id.values(), 2 * limits.job_s
        )
        self.translation_context = self.captioner.translation_context
        restore.settings(log, self.translation_context)

    def __repr__(self) -> str:
        return (
            f"<Room {self.name} seq {self.log.seq}, {len(self.subscribers.members)} members, "
            f"{len(self.utterances)} utterances, {len(self.captioner.jobs)} jobs>"
        )

    def new_subscribers(self, targets: Sequence[str], linger: float) -> Subscribers:
        """Return the members of a new room, see `Subscribers`."""
        return Subscribers(targets, linger)

    # --- members ------------------------------------------------------------------------------

    def join(self, member: Member, now: float) -> None:
        """Send the member from now on the events that its languages and view ask for.

        A member of the same id that is away has come back: it gets its work in flight again.
        """
        self.subscribers.join(member)
        self.empty_since = None
        # A client that comes back in time finds its captions still being made.
        before = self.attendance.release(member.id)
        # The set is shared, because the account of the tenant may still count the old socket.
        if before is not None:
            member.inflight = before.inflight
        if member.speaker is not None:
            self.translation_context.add_speaker(member.speaker)
        self._announce(now)

    def leave(self, member: Member, now: float) -> None:
        """Let a member go: cancel its work, and at once what nobody reads in an empty room."""
        # First, so that the end of its own work is not sent to a closed socket.
        self.subscribers.leave(member, now)
        self._abort(member, now)
        self._check_empty(now)
        # In an empty room nobody is expected back, so no language lingers.
        if self.empty_since is not None:
            self._expire_languages(math.inf, now)
        self._announce(now)

    def disconnect(self, member: Member, now: float) -> None:
        """Wait for a member whose socket was lost: its work goes on for `Limits.grace_s`.

        What is made for it as a reader goes on as well, even if it was the last reader.
        """
        self.subscribers.leave(member, now)
        # A reader has nothing to come back for that the log does not have.
        if member.inflight:
            until = now + self.limits.grace_s
            self.attendance.wait_for(member, until)
            self._timer.at(until)
        self._check_empty(now)
        self._announce(now)

    @property
    def settled(self) -> bool:
        """True if nothing is in flight, so that another process can continue with the log."""
        everybody = self.attendance.everybody
        return not self.captioner.jobs and not any(member.inflight for member in everybody)

    def stop(self, now: float) -> None:
        """Cancel everything that has not ended, because the server stops."""
        for utterance in self.attendance.unfinished():
            self.captioner.cancel(utterance, None, now)
        for sink in list(self.captioner.jobs.values()):
            # A corrected original keeps its old translation.
            if not sink.caption.state.ended:
                self.captioner.cancel(sink.utterance, (sink.caption.lang,), now)
        # What is left translates corrected originals: readers keep the old translation.
        self.captioner.clear()
        self.attendance.clear()

    def end(self) -> None:
        """Take back all jobs, because the room is given up."""
        self.captioner.clear()
        for member in self.attendance.everybody:
            member.inflight.clear()  # the tenant's account counts it while the member exists

    def finish_speaking(self, member: Member, now: float) -> None:
        """Cancel the member's utterances that still grow: it will say no more."""
        for utterance in self.attendance.unfinished(member):
            if not utterance.final:
                self.captioner.cancel(utterance, None, now)

    def want(
        self,
        member: Member,
        langs: tuple[str, ...],
        view: View | None,
        now: float,
        *,
        most: int | None = None,
    ) -> None:
        """Change the languages and view of the member.

        Utterances in flight are captioned in the new languages too. If that is done already, the
        member is sent what it missed. It is shown finished captions that it has not seen, and
        languages new to the room are backfilled when the engine has time.

        :param view: None leaves the view as it is
        :param most: utterances to backfill, within `Limits.backfill`
        """
        limit = self.limits.backfill
        most = limit if most is None else min(most, limit)
        new = {tag: self.subscribers.served_by(tag) for tag in langs if tag not in member.langs}
        missing = set(new.values()) - self.subscribers.wanted
        other_view = view is not None and view != member.view
        if view is not None:
            member.view = view
        self.subscribers.change(member, langs, now)
        if member.welcomed:
            found = self.snapshots.finished(new, self._recent(most))
            member.outbox.push_newest(found, now)
        # Another view shows another part of each caption, so all of them are sent again.
        shown = {tag: self.subscribers.served_by(tag) for tag in langs} if other_view else new
        # After the change above, so that the next delta continues what is shown here.
        for tag, lang in shown.items():
            for delta in self.snapshots.growing(lang):
                self.subscribers.catch_up(member, tag, delta, now)
        for utterance in self.attendance.unfinished():
            self.captioner.translate(utterance, self.subscribers.wanted, now)
        # Newest first: of a full queue the newest utterances get the places.
        for utterance in self._recent(most):
            for lang in sorted(missing - utterance.captions.keys()):
                self.captioner.backfill(utterance, lang, now)
        # A killed process had accepted these, so each caption has to end in some way.
        for utterance in self._interrupted:
            erased = utterance.retracted or utterance.cancelled
            for lang in () if erased else sorted(missing - utterance.captions.keys()):
                if not self.captioner.backfill(utterance, lang, now):
                    self.captioner.decline(utterance, lang, now)
        self._expire_languages(now, now)
        self._announce(now)

    def use_tenant(self, tenant: str) -> str:
        """Use a tenant's share of the engine, unless somebody is in the room; return which."""
        if not self.attendance.everybody:  # else jobs of the earlier tenant may be waiting
            self.captioner.tenant = tenant
        return self.captioner.tenant

    def in_flight(self, tags: Sequence[str], view: View) -> list[Envelope]:
        """Return the unfinished captions in ``tags``, for a member that has caught up."""
        return self.snapshots.in_flight(tags, view)

    # --- requests of members --------------------------------------------------------------------

    def knows(self, member: Member, id: str | None) -> bool:
        """Tell whether a member may go on with an utterance of this id."""
        return self.utterances.knows(id)

    def request(
        self, member: Member, message: Request, now: float, langs: tuple[str, ...] | None = None
    ) -> None:
        """Carry out a request of a member. Languages and texts of the message are normalised.

        Raises `ClientFault`; then nothing has changed. ``langs`` may be read; None for all.
        """
        match message:
            case Say():
                assert message.lang is not None, "its language was found before"
                self.say(member, message, message.text, message.lang, now)
            case Cancel():
                self.cancel(member, message.id, message.langs, message.ref, now)
            case Edit():
                self.edit(member, message, message.text, message.lang, now)
            case Retract():
                self.retract(member, message, now)
            case Set():
                self.change_settings(member, message, now)
            case Get():
                found = self.snapshots.snapshot(message.id, message.ref, Permissions(langs=langs))
                member.outbox.send(found, now)
            case Bye():  # pragma: no branch: there is no other
                self.finish_speaking(member, now)

    def say(self, member: Member, say: Say, text: str, lang: str, now: float) -> None:
        """Accept a new utterance or a revision of one. ``text`` and ``lang`` are normalised.

        Raises `ClientFault` (``forbidden``, ``stale``, ``busy``); then nothing has changed.
        """
        # Revisions of what is in flight are always accepted, or it could never end.
        if len(member.inflight) >= self.limits.inflight and not self.utterances.knows(say.id):
            raise ClientFault(
                ErrorCode.BUSY,
                f"{len(member.inflight)} utterances of this socket have not ended yet.",
                "Wait for their captions, or cancel one.",
            )
        self.utterances.forget(self.log.oldest)
        self._ingest.say(member, say, text, lang, now)

    def cancel(
        self, member: Member, id: str, langs: tuple[str, ...] | None, ref: str | None, now: float
    ) -> None:
        """Stop the work on an utterance and all its parts. The answer is always ``cancelled``.

        Raises `ClientFault` (``forbidden``) if the utterance belongs to another speaker.
        """
        parts = self.utterances.parts(id)
        # A client may cancel what it has not said yet or what was forgotten: nothing is lost.
        if not parts:
            for lang in langs or (None,):
                answer = Cancelled(id=id, rev=0, lang=lang, was="none", ref=ref)
                member.outbox.send(answer, now)
            return
        self._check_owner(member, parts[0], "cancel")
        for part in parts:
            # The first part is answered in any case, the others only if something ends.
            if part is parts[0] or not part.ended:
                self.captioner.cancel(part, langs or None, now, Reply(member, ref))

    def edit(self, member: Member, edit: Edit, text: str, lang: str, now: float) -> None:
        """Replace a caption, or the original, which is then translated anew.

        Raises `ClientFault` (``not_found``, ``forbidden``, ``stale``).
        """
        utterance = self.utterances.known(edit.id)
        self._check_owner(member, utterance, "correct")
        # The next revision of the speaker would overwrite the correction.
        if not utterance.final:
            raise ClientFault(
                ErrorCode.STALE,
                f"Utterance {edit.id!r} was not said to its end.",
                "Correct it when it has been; its speaker says the right text as next revision.",
            )
        if languages.same(lang, utterance.lang):
            utterance.text = text
            utterance.turn += 1
            # Readers see the corrected original at once, its translations when they are made.
            self._publisher.original(utterance, now, Reply(member, edit.ref))
            self.captioner.revise(utterance, now)
            self._outcomes.settle(utterance, now)
            return
        caption = utterance.captions.get(self.subscribers.served_by(lang))
        if caption is None:
            raise ClientFault(
                ErrorCode.NOT_FOUND,
                f"Utterance {edit.id!r} has no caption in {lang!r}.",
                "Correct it in a language that somebody reads.",
            )
        # The job first: a translation that ends now would replace the text of a person.
        self.captioner.withdraw(caption)
        reply = Reply(member, edit.ref, lang)
        if caption.state.ended:
            caption.edit(text, "human")
            self._publisher.edited(utterance, caption, now, reply)
        else:
            self._outcomes.finish(utterance, caption, text, "human", now, reply)
            self._outcomes.settle(utterance, now)

    def retract(self, member: Member, retract: Retract, now: float) -> None:
        """Erase an utterance and all its parts, in all languages.

        Raises `ClientFault` (``not_found``, ``forbidden``).
        """
        self._check_owner(member, self.utterances.known(retract.id), "retract")
        # A restored utterance has no speech.
        speech = self.utterances.speeches.get(retract.id)
        if speech is not None:
            speech.erase()
        for part in self.utterances.parts(retract.id):
            if part.retracted:
                continue
            # A `cancelled` tells clients that no text follows, and `retracted` that none is left.
            if not part.ended:
                self.captioner.cancel(part, None, now)
            for caption in part.captions.values():
                self.captioner.withdraw(caption)
            part.erase()
            self._publisher.retracted(part, now, Reply(member, retract.ref))

    def change_settings(self, member: Member, change: Set, now: float) -> None:
        """Change the room's settings, and send everybody the new version."""
        context = self.translation_context
        context.change(change)
        if change.speaker is not None:
            member.speaker = change.speaker or None
        if change.speaker:
            context.add_speaker(change.speaker)
            self._announce(now)
        context.version += 1
        self._publisher.settings(change, context.version, now, member)

    # --- the process and the clock --------------------------------------------------------------

    def shed(self, size: int) -> None:
        """Forget the oldest events and their utterances, to free ``size`` bytes of the log."""
        self.log.shed(size)
        self.utterances.forget(self.log.oldest)

    def degrade(self, how: Degraded, now: float) -> None:
        """Tell everybody that the engine works worse than before, or better."""
        # Those who join later are told only of a state that is not as usual.
        self.degraded = how if how.engine or how.partials == "off" else None
        self.subscribers.tell(Envelope(how), None, now)

    def on_timer(self, now: float) -> None:
        """Do the work that is due: growing texts, absent members, unread languages, presence."""
        self._timer.expired()
        for member in self.attendance.expire(now):
            self._abort(member, now)
        for utterance in self.attendance.unfinished():
            if not utterance.final:
                self._ingest.translate_due(self.utterances.speeches[utterance.root], now)
        self._check_empty(now)
        deadline = self.attendance.deadline
        if deadline is not None:
            self._timer.at(deadline)
        if self._announce_at is not None:
            if self._announce_at <= now:
                self._announce_at = None
                self.subscribers.tell(Envelope(self.subscribers.presence()), None, now)
            else:
                self._timer.at(self._announce_at)

    # --- inside -----------------------------------------------------------------------------------

    def _check_owner(self, member: Member, utterance: Utterance, what: str) -> None:
        # An older release has kept no authors: nobody can claim such an utterance after a restart.
        if member.role is not Role.MODERATE and utterance.author != member.id:
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"Utterance {utterance.root!r} belongs to another speaker.",
                f"Only its speaker and moderators can {what} it.",
            )

    def _recent(self, most: int) -> list[Utterance]:
        """Return the last utterances that a newcomer is shown, newest first."""
        return self.utterances.known_of(self.log.standing(most))

    def _abort(self, member: Member, now: float) -> None:
        """Cancel the member's utterances that have not ended."""
        for utterance in self.attendance.unfinished(member):
            self.captioner.cancel(utterance, None, now)
        member.inflight.clear()

    def _check_empty(self, now: float) -> None:
        """Note since when the room is empty."""
        # First, because a cancelled caption may be the last that an absent member is waited for.
        self._expire_languages(now, now)
        if self.subscribers.members or self.attendance.away:
            self.empty_since = None
        elif self.empty_since is None:
            self.empty_since = now

    def _expire_languages(self, until: float, now: float) -> None:
        """Cancel captions in unread languages that linger no later than ``until``."""
        unread = self.subscribers.expire(until)
        if unread:
            lost: dict[Utterance, dict[str, None]] = {}
            unfinished = ((u, c) for u in self.attendance.unfinished() for c in u.active)
            for utterance, caption in (*unfinished, *self.captioner.in_progress(unread)):
                if caption.lang in unread:
                    lost.setdefault(utterance, {})[caption.lang] = None
            for utterance, langs in lost.items():
                self.captioner.cancel(utterance, tuple(langs), now)
        if (due := self.subscribers.due) is not None:
            self._timer.at(due)

    def _announce(self, now: float) -> None:
        """Send ``presence`` to everybody, a little later: many may come at once."""
        # A member that is alone need not be told so, unless it was told of others.
        if len(self.subscribers.members) > 1 or self._announced:
            self._announced = len(self.subscribers.members) > 1
            if self._announce_at is None:
                self._announce_at = now + self.limits.presence_s
                self._timer.at(self._announce_at)
