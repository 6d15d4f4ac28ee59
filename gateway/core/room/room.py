"""A meeting: its members, its utterances, and what members may do.

Owns: the rules of who may do what, and what follows for the room when members come and go. Must not
know: frames, sockets, tasks, clocks, how captions are made (`gateway.core.captions.captioner`) or
how they end (`gateway.core.captions.outcomes`).

The parts of a room form a graph without cycles; each calls only those below it::

    Room, Ingest                what members do and say
    Snapshots                   what readers are shown
    Captioner, JobBuilder       which caption waits for which job, and what it is told
    CaptionOutcomes             how captions end
    Publisher, Attendance       durable events; who is present or away
    Subscribers, Utterances     who reads what; what was said, by id

Bound: `Limits.utterances`; only members with utterances in flight are away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from gateway.auth.permissions import Permissions, Role
from gateway.core.base.model import Model
from gateway.core.captions.captioner import Captioner
from gateway.core.captions.ingest import Ingest
from gateway.core.captions.job_builder import JobBuilder
from gateway.core.captions.outcomes import CaptionOutcomes
from gateway.core.history.event_log import EventLog
from gateway.core.history.publisher import Publisher
from gateway.core.members.attendance import Attendance, PresenceAnnouncer
from gateway.core.members.member import Member, Reply
from gateway.core.members.subscribers import Subscribers
from gateway.core.room import restore
from gateway.core.room.abstract_room import AbstractRoom
from gateway.core.room.likely_pairs import LikelyPairs
from gateway.core.room.snapshots import Snapshots
from gateway.core.scheduling.scheduler import Scheduler
from gateway.core.scheduling.timer import RoomTimer
from gateway.core.streaming.length_ratios import LengthRatios
from gateway.core.streaming.options import StreamingOptions
from gateway.core.utterances.collection import Utterances
from gateway.core.utterances.utterance import Utterance
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import (
    Cancel,
    Cancelled,
    Edit,
    Get,
    Retract,
    Say,
    ServerMessage,
    Set,
    View,
    Want,
)
from gateway.protocol.notices import Degraded
from gateway.text import languages


class RoomOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The parts and settings of a gateway that its rooms share, and the calls of one room.

    :param observe: called with every durable event and the time at which it was decided
    :param set_timer: called with the time of the next `Room.on_timer`, in place of any earlier one
    """

    scheduler: Scheduler
    model: Model
    limits: Limits
    streaming: StreamingOptions = StreamingOptions()
    observe: Callable[[ServerMessage, float], None] = lambda *_: None
    set_timer: Callable[[float], None] = lambda _: None


class Room(AbstractRoom):
    """The state of one meeting, and its rules; see `AbstractRoom` for the requests."""

    degraded: Degraded | None = None

    def __init__(self, name: str, log: EventLog, options: RoomOptions) -> None:
        model, limits, scheduler = options.model, options.limits, options.scheduler
        rules = options.streaming.stability
        super().__init__(name, log, self.new_subscribers(model.targets, limits.linger_s))
        self.limits = limits
        self.utterances = Utterances(name, options.streaming, limits)
        self.attendance = Attendance(self.subscribers.members, self.utterances)
        self._publisher = Publisher(log, self.subscribers, options.observe)
        self._outcomes = CaptionOutcomes(self._publisher, self.subscribers, self.attendance)
        builder = JobBuilder(
            room=name,
            model=model,
            scheduler=scheduler,
            context=self.translation_context,
            rules=rules,
            utterances=self.utterances,
            length_ratios=LengthRatios(rules),
        )
        show = self.subscribers.show
        self.captioner = Captioner(model, scheduler, builder, self._outcomes, show)
        self._timer = RoomTimer(options.set_timer)
        self._presence = PresenceAnnouncer(self.subscribers, self._timer, limits.presence_s)
        self._ingest = Ingest(
            room=name,
            utterances=self.utterances,
            subscribers=self.subscribers,
            captioner=self.captioner,
            outcomes=self._outcomes,
            scheduler=scheduler,
            context=self.translation_context,
            timer=self._timer,
        )
        for utterance in restore.utterances(log, options.streaming):
            self.utterances.restore(utterance)
        restore.settings(log, self.translation_context)
        self.snapshots = Snapshots(
            self.utterances, self.subscribers, self.attendance, self.captioner
        )
        # A killed process had accepted these, so each caption has to end in some way.
        patience = 2 * limits.job_s
        self._interrupted = restore.interrupted(log, self.utterances.by_id.values(), patience)
        self.pairs = LikelyPairs(model, self.subscribers)

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
        """Add a member. One of the same id that is away has come back to its work in flight."""
        # First, so that what follows for everybody does not reach the member before its welcome.
        if member.role is not Role.VIEW:
            self.pairs.speak(member.spoken)
        self.subscribers.join(member)
        self.empty_since = None
        # A client that comes back in time finds its captions still being made.
        before = self.attendance.release(member.id)
        # Shared with the old member, whose socket the account of the tenant may still count.
        if before is not None:
            member.in_flight = before.in_flight
        if member.speaker is not None:
            self.translation_context.add_speaker(member.speaker)
        self._presence.changed(now)

    def leave(self, member: Member, now: float) -> None:
        """Let a member go: cancel its work, and in an empty room also all captions at once."""
        # First, so that the end of its own work is not sent to a closed socket.
        self.subscribers.leave(member, now)
        self._abort(member, now)
        self._check_empty(now)
        # In an empty room nobody is expected back, so no language lingers.
        if self.empty_since is not None:
            self._expire_languages(math.inf, now)
        self._presence.changed(now)

    def disconnect(self, member: Member, now: float) -> None:
        """Wait for a member whose socket was lost: its work goes on for `Limits.grace_s`. Captions
        for it as a reader go on as well, even if it was the last reader.
        """
        self.subscribers.leave(member, now)
        # A reader has nothing to come back for that the log does not have.
        if member.in_flight:
            until = now + self.limits.grace_s
            self.attendance.wait_for(member, until)
            self._timer.at(until)
        self._check_empty(now)
        self._presence.changed(now)

    @property
    def bytes(self) -> int:
        return self.log.bytes + self.utterances.bytes

    @property
    def settled(self) -> bool:
        everybody = self.attendance.everybody
        return not self.captioner.jobs and not any(member.in_flight for member in everybody)

    def stop(self, now: float) -> None:
        """Cancel everything that has not ended, because the server stops."""
        self._cancel_all(self.attendance.unfinished(), now)
        for sink in list(self.captioner.jobs.values()):
            # A corrected original keeps its old translation.
            if not sink.caption.state.ended:
                self.captioner.cancel(sink.utterance, (sink.caption.lang,), now)
        # The remaining jobs translate corrected originals: readers keep the old translation.
        self.captioner.clear()
        self.attendance.away.clear()

    def end(self) -> None:
        """Take back all jobs, because the room is given up."""
        self.captioner.clear()
        for member in self.attendance.everybody:
            member.in_flight.clear()  # the tenant's account counts it while the member exists

    def finish_speaking(self, member: Member, now: float) -> None:
        unfinished = self.attendance.unfinished(member)
        self._cancel_all((u for u in unfinished if not u.final), now)

    def want(self, member: Member, message: Want, now: float) -> None:
        langs, view, subscribers = message.langs, message.view, self.subscribers
        most = self.limits.backfill
        if message.backfill is not None:
            most = min(message.backfill, most)
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
        # Utterances in flight are captioned in the new languages too, and what was said before when
        # the engine has time.
        for utterance in self.attendance.unfinished():
            self.captioner.translate(utterance, subscribers.wanted, now)
        # Newest first: the newest utterances are to find the queue free.
        for utterance, lang in _without(missing, self._recent(most)):
            self.captioner.backfill(utterance, lang, now)
        standing = [u for u in self._interrupted if not (u.retracted or u.cancelled)]
        for utterance, lang in _without(missing, standing):
            if not self.captioner.backfill(utterance, lang, now):
                self.captioner.decline(utterance, lang, now)
        self._expire_languages(now, now)
        self.pairs.read(langs)
        self._presence.changed(now)

    def use_tenant(self, tenant: str) -> str:
        if not self.attendance.everybody:  # else jobs of the earlier tenant may be waiting
            self.captioner.builder.tenant = tenant
        return self.captioner.builder.tenant

    def in_flight(self, tags: Sequence[str], view: View) -> list[Envelope]:
        return self.snapshots.in_flight(tags, view)

    # --- requests of members --------------------------------------------------------------------

    def knows(self, member: Member, id: str | None) -> bool:
        return self.utterances.knows(id)

    def say(self, member: Member, message: Say, now: float) -> None:
        # Revisions of what is in flight are always accepted, or it could never end.
        if len(member.in_flight) >= self.limits.inflight and not self.utterances.knows(message.id):
            raise ClientFault(
                ErrorCode.BUSY,
                f"{len(member.in_flight)} utterances of this socket have not ended yet.",
                "Wait for their captions, or cancel one.",
            )
        self.utterances.forget(self.log.oldest)
        self._ingest.say(member, message, now)

    def cancel(self, member: Member, message: Cancel, now: float) -> None:
        id, langs, ref = message.id, message.langs, message.ref
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

    def edit(self, member: Member, message: Edit, now: float) -> None:
        text, lang = message.text, message.lang
        utterance = self.utterances.known(message.id)
        self._check_owner(member, utterance, "correct")
        # The next revision of the speaker would overwrite the correction.
        if not utterance.final:
            raise ClientFault(
                ErrorCode.STALE,
                f"Utterance {message.id!r} was not said to its end.",
                "Correct it when it has been; its speaker says the right text as next revision.",
            )
        if languages.same(lang, utterance.lang):
            utterance.text = text
            utterance.text_number += 1
            # Readers see the corrected original at once, its translations when they are made.
            self._publisher.original(utterance, now, Reply(member, message.ref))
            self.captioner.revise(utterance, now)
            self._outcomes.settle(utterance, now)
            return
        caption = utterance.captions.get(self.subscribers.served_by(lang))
        if caption is None:
            raise ClientFault(
                ErrorCode.NOT_FOUND,
                f"Utterance {message.id!r} has no caption in {lang!r}.",
                "Correct it in a language that somebody reads.",
            )
        # The job first: a translation that ends now would replace the text of a person.
        self.captioner.withdraw(caption)
        reply = Reply(member, message.ref, lang)
        if caption.state.ended:
            caption.edit(text, "human")
            self._publisher.edited(utterance, caption, now, reply)
        else:
            self._outcomes.finish(utterance, caption, text, "human", now, reply)
            self._outcomes.settle(utterance, now)

    def retract(self, member: Member, message: Retract, now: float) -> None:
        self._check_owner(member, self.utterances.known(message.id), "retract")
        # A restored utterance has no speech.
        speech = self.utterances.speeches.get(message.id)
        if speech is not None:
            speech.erase()
        for part in self.utterances.parts(message.id):
            if part.retracted:
                continue
            # A `cancelled` tells clients that no text follows, and `retracted` that none is left.
            if not part.ended:
                self.captioner.cancel(part, None, now)
            for caption in part.captions.values():
                self.captioner.withdraw(caption)
            part.erase()
            self._publisher.retracted(part, now, Reply(member, message.ref))

    def get(
        self, member: Member, message: Get, now: float, langs: tuple[str, ...] | None = None
    ) -> None:
        shown = self.snapshots.snapshot(message.id, message.ref, Permissions(langs=langs))
        member.outbox.send(shown, now)

    def change_settings(self, member: Member, message: Set, now: float) -> None:
        context = self.translation_context
        context.change(message)
        if message.from_ is not None:
            self.pairs.speak(message.from_)
        if message.speaker is not None:
            member.speaker = message.speaker or None
        if message.speaker:
            context.add_speaker(message.speaker)
            self._presence.changed(now)
        context.version += 1
        self._publisher.settings(message, context.version, now, member)

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
        self._presence.on_timer(now)

    # --- inside -----------------------------------------------------------------------------------

    def _check_owner(self, member: Member, utterance: Utterance, what: str) -> None:
        # An older release has kept no authors: nobody can claim such an utterance after a restart.
        if member.role is not Role.MODERATE and utterance.author != member.id:
            raise ClientFault(
                ErrorCode.FORBIDDEN,
                f"Utterance {utterance.root!r} belongs to another speaker.",
                f"Only its speaker and moderators can {what} it.",
            )

    def _abort(self, member: Member, now: float) -> None:
        self._cancel_all(self.attendance.unfinished(member), now)
        member.in_flight.clear()

    def _recent(self, most: int) -> list[Utterance]:
        """Return the last utterances that a newcomer is shown, newest first."""
        known = self.utterances.by_id
        return [known[id] for id in self.log.standing(most) if id in known]

    def _cancel_all(self, utterances: Iterable[Utterance], now: float) -> None:
        for utterance in utterances:
            self.captioner.cancel(utterance, None, now)

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

    def _check_empty(self, now: float) -> None:
        # First, because a cancelled caption may be the last that an absent member is waited for.
        self._expire_languages(now, now)
        if self.subscribers.members or self.attendance.away:
            self.empty_since = None
        elif self.empty_since is None:
            self.empty_since = now


def _without(langs: set[str], utterances: Iterable[Utterance]) -> Iterable[tuple[Utterance, str]]:
    """Yield each utterance with each of ``langs`` in which it has no caption."""
    for utterance in utterances:
        for lang in sorted(langs - utterance.captions.keys()):
            yield utterance, lang
