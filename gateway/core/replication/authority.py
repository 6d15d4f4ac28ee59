"""The authority of a room: the one place in all gateways where its decisions are made.

Owns: the members of other gateways, and how decisions become messages of the feed. Must not know:
how messages travel, sockets, what the room decides (`gateway.core.room.room`).

An authority is an ordinary room whose members are all remote, so the rules of a meeting are the
same with one gateway and with several. Each event is sent once for the whole room, not once for
each member; the replicas distribute it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec

from msgspec.structs import replace

from gateway.core.base.faults import error
from gateway.core.delivery.outbox import Outbox
from gateway.core.history.event_log import EventLog
from gateway.core.members.member import Member, Reply
from gateway.core.members.subscribers import Subscribers
from gateway.core.replication import messages
from gateway.core.replication.growing_captions import GrowingCaptions
from gateway.core.room.abstract_room import Request
from gateway.core.room.room import Room, RoomOptions
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import Cancel, Delta, Edit, Get, Retract, Retracted, Say, Set, Want

P = ParamSpec("P")
Emit = Callable[[messages.FeedMessage], None]
"""Sends a message to all replicas. A `Decided` is first written to the room's log."""


class Feed:
    """The messages of one authority, named ``term``. Its log began ``began`` seconds after 1970."""

    def __init__(self, term: str, emit: Emit, log: EventLog, began: float) -> None:
        self.term = term
        self._emit = emit
        self._log = log
        self.began = began
        self._number = 0
        self.codecs: Counter[Codec] = Counter()
        """Number of members by codec."""
        self._growing = GrowingCaptions()

    def send(
        self,
        kind: Callable[Concatenate[int, P], messages.FeedMessage],
        *args: P.args,
        **more: P.kwargs,
    ) -> None:
        """Send a message that no log keeps."""
        self._number += 1
        self._emit(kind(self._number, *args, **more))

    def decided(
        self, envelope: Envelope, lang: str | None, now: float, reply: Reply | None
    ) -> None:
        """Send a durable event that the log has."""
        log = self._log
        frames = messages.Frames.of(envelope, self.codecs)
        # First: a delta that follows belongs to another translation, and starts with a `reset`.
        self._growing.forget_ended(envelope.message)  # type: ignore[arg-type]
        author = log.authors.get(log.seq)
        at = now - log.began
        decided = messages.Decided(frames, lang, log.epoch, self.began, at, author=author)
        if reply is not None:
            decided = replace(decided, member=reply.member.id, ref=reply.ref, tag=reply.tag)
        self._emit(decided)

    def grown(self, delta: Delta) -> None:
        """Send more text of a caption. The first has a ``reset``, see `GrowingCaptions.grow`."""
        self.send(messages.Grown.of, self._growing.grow(delta), self.codecs)

    def told(self, envelope: Envelope) -> None:
        """Send an event to everybody."""
        self.send(messages.Told, messages.Frames.of(envelope, self.codecs))

    def greeted(
        self, message: messages.Present, members: Sequence[RemoteMember], room: Room
    ) -> None:
        """Answer a replica with the state of the room."""
        langs = sorted(room.subscribers.wanted)
        growing = tuple(delta for lang in langs for delta in room.snapshots.growing(lang))
        in_flight = {m.id: tuple(sorted(m.in_flight.utterances)) for m in members if m.in_flight}
        gateway, number = message.gateway, message.introduction
        log = (self.term, self._log.epoch, self.began)
        self.send(messages.Greeted, gateway, *log, growing, in_flight, number, room.degraded)


class FeedSubscribers(Subscribers):
    """The members of all gateways. Events go into the feed once, not to each member."""

    def __init__(self, targets: Sequence[str], linger: float, feed: Feed) -> None:
        super().__init__(targets, linger)
        self._feed = feed

    def join(self, member: Member) -> None:
        self._feed.codecs[member.outbox.codec] += 1
        super().join(member)

    def leave(self, member: Member, now: float) -> None:
        self._feed.codecs -= Counter([member.outbox.codec])
        super().leave(member, now)

    def publish(
        self, envelope: Envelope, lang: str | None, now: float, reply: Reply | None
    ) -> None:
        self._feed.decided(envelope, lang, now, reply)

    def tell(self, envelope: Envelope, lang: str | None, now: float, **answer: object) -> None:
        assert lang is None and not answer, "only durable events have a language and an answer"
        self._feed.told(envelope)

    def show(self, delta: Delta, now: float) -> None:
        self._feed.grown(delta)

    def catch_up(self, member: Member, tag: str, delta: Delta, now: float) -> None:
        """Do nothing: the replica of the member knows what was shown of the caption."""


class _RemoteOutbox(Outbox):
    """The events for one member alone. They have no bound here: the replica has the queue."""

    def __init__(self, state: messages.MemberState, feed: Feed, limits: Limits) -> None:
        super().__init__(state.codec, limits)
        self._member = state.id
        self._feed = feed

    def push(self, envelope: Envelope, now: float) -> None:
        self._feed.send(messages.Addressed, self._member, envelope.message)

    def fits(self, envelopes: object) -> bool:
        """Return True: the replica checks what fits."""
        return True


class RemoteMember(Member):
    """A member whose socket is in one of the gateways.

    ``asked`` is the number of its last request that was carried out.
    """

    __slots__ = ("_feed", "_reported", "asked", "gateway")

    def __init__(
        self, state: messages.MemberState, gateway: str, feed: Feed, limits: Limits
    ) -> None:
        super().__init__(state.id, state.role, _RemoteOutbox(state, feed, limits))
        self.speaker, self.spoken = state.speaker, state.spoken
        self.view = state.view
        self.gateway = gateway
        self.asked = state.asked
        self._feed = feed
        self._reported: tuple[int, tuple[str, ...]] = (state.asked, ())

    def ended(self, now: float) -> None:
        self.report()

    def report(self) -> None:
        """Report answers and utterances in flight, if there is any news of them."""
        news = (self.asked, tuple(sorted(self.in_flight.utterances)))
        if news != self._reported:
            self._reported = news
            self._feed.send(messages.Answered, self.id, *news)


class Authority(Room):
    """The room of all gateways.

    :param full: tells whether so many events wait to be written that no new text is accepted
    """

    def __init__(
        self,
        name: str,
        *,
        term: str,
        began: float,
        emit: Emit,
        full: Callable[[], bool],
        log: EventLog,
        options: RoomOptions,
    ) -> None:
        self.feed = Feed(term, emit, log, began)
        self._full = full
        self._gateways: set[str] = set()  # that have introduced themselves
        super().__init__(name, log, options)

    def new_subscribers(self, targets: Sequence[str], linger: float) -> Subscribers:
        return FeedSubscribers(targets, linger, self.feed)

    def receive(self, message: messages.InboxMessage, now: float) -> None:
        """Carry out a request of a replica. Messages to another authority are ignored."""
        gateway = message.gateway
        # The only message whose sender does not know the present term yet.
        if isinstance(message, messages.Present):
            self._greet(message, now)
            return
        if message.term != self.feed.term:
            return
        # Its members were disconnected, so what they ask for would fail in odd ways.
        if gateway not in self._gateways:
            self.feed.send(messages.Unheard, gateway)
            return
        if isinstance(message, messages.Joined):
            self._enter(gateway, message.member, now)
            return
        member = self._member(gateway, getattr(message, "member", ""))
        if member is None:  # its session goes on in another gateway
            return
        match message:
            case messages.Left(lost=True):
                self.disconnect(member, now)
            case messages.Left():
                self.leave(member, now)
            case messages.Wanted():
                # A member that has just come is sent the past by its replica, which has the log.
                member.welcomed = message.welcomed
                want = Want(langs=message.langs, view=message.view, backfill=message.most)
                self.want(member, want, now)
            case messages.Asked():  # pragma: no branch: there is no other
                self._ask(member, message, now)

    def only_in(self, gateway: str) -> bool:
        """Tell whether no other gateway has a replica that follows the room."""
        return self._gateways <= {gateway}

    def lose_gateway(self, gateway: str, now: float) -> None:
        """Disconnect the members of a gateway that has ended."""
        self._gateways.discard(gateway)
        for member in self._members(gateway):
            self.disconnect(member, now)

    def erased(self, retracted: Retracted) -> list[messages.Decided]:
        """Return the events of an utterance whose texts were just erased."""
        return messages.as_written(self.log, self.log.texts_of((retracted.ord,)), self.feed.began)

    def resume_feed(self) -> None:
        """Send anything, so that replicas notice if messages before it were lost."""
        self.feed.told(Envelope(self.subscribers.presence()))

    # --- inside -----------------------------------------------------------------------------------

    def _members(self, gateway: str) -> list[RemoteMember]:
        members = self.subscribers.members.values()
        return [m for m in members if isinstance(m, RemoteMember) and m.gateway == gateway]

    def _member(self, gateway: str, id: str) -> RemoteMember | None:
        member = self.subscribers.members.get(id)
        here = isinstance(member, RemoteMember) and member.gateway == gateway
        return member if here else None  # type: ignore[return-value]  # mypy forgets the check

    def _enter(self, gateway: str, state: messages.MemberState, now: float) -> RemoteMember:
        before = self.subscribers.members.get(state.id)
        # The client has come back through another gateway before this one saw its socket end.
        if isinstance(before, RemoteMember):
            self.feed.send(messages.Replaced, before.gateway, before.id)
            self.disconnect(before, now)
        self.use_tenant(state.tenant)
        member = RemoteMember(state, gateway, self.feed, self.limits)
        self.join(member, now)
        member.report()
        return member

    def _greet(self, message: messages.Present, now: float) -> None:
        """Take over the members of a replica as they are, and tell it how the room is."""
        gateway, states = message.gateway, message.members
        self._gateways.add(gateway)
        present = {state.id for state in states}
        # The notice of their leaving was lost with the connection.
        for member in self._members(gateway):
            if member.id not in present:
                self.disconnect(member, now)
        for state in states:
            known = self._member(gateway, state.id)
            member = known or self._enter(gateway, state, now)
            member.asked = state.asked
            # A member that is known is not asked anew, because it would be shown captions twice.
            if known is None or (member.langs, member.view) != (state.langs, state.view):
                self.want(member, Want(langs=state.langs, view=state.view), now)
        self.feed.greeted(message, self._members(gateway), self)

    def _carry_out(
        self, member: Member, request: Request, now: float, langs: tuple[str, ...] | None
    ) -> None:
        """Carry out a request of a member of another gateway. Raises `ClientFault`."""
        match request:
            case Say():
                self.say(member, request, now)
            case Cancel():
                self.cancel(member, request, now)
            case Edit():
                self.edit(member, request, now)
            case Retract():
                self.retract(member, request, now)
            case Set():
                self.change_settings(member, request, now)
            case Get():
                self.get(member, request, now, langs)
            case _:  # `Bye`
                self.finish_speaking(member, now)

    def _ask(self, member: RemoteMember, message: messages.Asked, now: float) -> None:
        request = message.request
        try:
            if isinstance(request, Say) and self._full() and not self.knows(member, request.id):
                raise ClientFault(
                    ErrorCode.BUSY, "The log of this room cannot be written; say it again later."
                )
            self._carry_out(member, request, now, message.langs)
        except ClientFault as fault:
            id = getattr(request, "id", None)
            member.outbox.send(error(fault, ref=request.ref, id=id), now)
        # After the answers, so that a replica never takes a request for done too early.
        member.asked = message.asked
        member.report()
