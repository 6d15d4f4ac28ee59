"""A copy of a room for the members of one gateway.

Owns: which members are here, what has been delivered to them, and which of their requests wait for
an answer. Must not know: how messages travel, who decides (`gateway.core.replication.authority`).

A replica decides nothing. It has the room's log as far as it was delivered, so that readers who
come late or come back are served here. Requests go to the authority, whose feed is applied in
order. If a message of the feed is missing, or the authority is another one, the replica introduces
itself (`Present`), and is told the state of the room (`Greeted`). Then the sockets of members are
closed whose requests may be lost: their clients send them again on the next socket, as after any
lost connection. Readers stay connected.

Bound: `Limits.log`, as for a room; for requests see `MemberRequests`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gateway.core.delivery.fanout import Encoder
from gateway.core.history.event_log import EventLog
from gateway.core.members.member import Member, Reply
from gateway.core.members.subscribers import Subscribers, shown_in
from gateway.core.replication import messages
from gateway.core.replication.growing_captions import GrowingCaptions
from gateway.core.replication.member_requests import MemberRequests
from gateway.core.room import restore
from gateway.core.room.abstract_room import AbstractRoom, Request
from gateway.core.streaming import segmentation
from gateway.errors import CloseCode
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import Bye, Delta, Edited, Retracted, Say, Set, Snapshot, View, Want
from gateway.protocol.notices import Degraded

MOVED = "This room goes on in another process; connect again."
"""Reason of the close of a socket whose requests may be lost."""


class ReplicaSubscribers(Subscribers):
    """The members of one gateway. Most deltas are sent as the frame that the feed brought.

    ``grown`` is the last delta of the feed, with its frames.
    """

    grown: Envelope | None = None

    def encoder(self, codec: Codec) -> Encoder:
        """Return the function that encodes deltas for the readers of a codec.

        It returns the frame of the feed, unless these readers are shown another delta.
        """
        encode = codec.wire

        def once(delta: Delta) -> bytes | None:
            grown = self.grown
            # Another view or tag makes another delta, which nobody has encoded yet.
            if grown is not None and delta is grown.message:
                return grown.wire(codec)
            return encode(delta)

        return once


class Replica(AbstractRoom):
    """The room as the gateway with the id ``gateway`` has it.

    :param log: a new log, whose epoch comes with the first event or with the authority
    """

    def __init__(
        self,
        name: str,
        *,
        gateway: str,
        log: EventLog,
        targets: Sequence[str],
        send: Callable[[str, messages.InboxMessage], None],
    ) -> None:
        self._members = ReplicaSubscribers(targets, 0.0)
        super().__init__(name, log, self._members)
        restore.settings(log, self.translation_context)
        self.owner: str | None = None
        self.began = 0.0
        """Begin of the log in seconds since 1970."""
        self.ended = False
        """True after the room has ended."""
        self.greeted = False
        """True while the replica is in step with the feed of the authority."""
        self._gateway = gateway
        self._send = send
        self._growing = GrowingCaptions()
        self._requests: dict[str, MemberRequests] = {}
        self._tenant = ""
        self._degraded: Degraded | None = None
        self._reached = True
        self._heard = 0  # number of the last message of the feed
        self._term = ""  # of the authority that has greeted last
        self._introductions = 0
        # Messages for the authority, sent when it has greeted.
        self._later: list[messages.InboxMessage] = []

    @property
    def degraded(self) -> Degraded | None:
        return self._degraded if self._reached else Degraded(partials="off")

    @property
    def settled(self) -> bool:
        return not any(member.in_flight for member in self.subscribers.members.values())

    @property
    def bytes(self) -> int:
        return self.log.bytes

    # --- members ------------------------------------------------------------------------------

    def use_tenant(self, tenant: str) -> str:
        self._tenant = tenant
        return tenant

    def shed(self, size: int) -> None:
        self.log.shed(size)

    def join(self, member: Member, now: float) -> None:
        self.subscribers.join(member)
        self.empty_since = None
        self.translation_context.add_speaker(member.speaker or "")
        self._requests[member.id] = MemberRequests(member.in_flight)
        self._tell(messages.Joined(*self._origin, self._state(member)))

    def leave(self, member: Member, now: float, *, lost: bool = False) -> None:
        self.subscribers.leave(member, now)
        del self._requests[member.id]
        member.in_flight.clear()  # the account counts it, and its end is not reported here
        if not self.subscribers.members:
            self.empty_since = now
        self._tell(messages.Left(*self._origin, member.id, lost))

    def disconnect(self, member: Member, now: float) -> None:
        self.leave(member, now, lost=True)

    def want(self, member: Member, message: Want, now: float) -> None:
        langs, view = message.langs, message.view
        other_view = view is not None and view != member.view
        shown = [tag for tag in langs if other_view or tag not in member.langs]
        if view is not None:
            member.view = view
        self.subscribers.change(member, langs, now)
        for tag in shown:
            for delta in self._growing.of(self.subscribers.served_by(tag)):
                self.subscribers.catch_up(member, tag, delta, now)
        most, welcomed = message.backfill, member.welcomed
        self._tell(messages.Wanted(*self._origin, member.id, langs, view, most, welcomed))

    def in_flight(self, tags: Sequence[str], view: View) -> list[Envelope]:
        if view == "final":
            return []
        return [
            Envelope(shown_in(view, delta)).for_language(tag)
            for tag, lang in self.subscribers.serving(tags)
            for delta in self._growing.of(lang)
        ]

    # --- requests -------------------------------------------------------------------------------

    def knows(self, member: Member, id: str | None) -> bool:
        """Tell whether a member has an utterance of this id in flight."""
        begun = member.in_flight.utterances
        return any(id in (other, segmentation.utterance_id(other)) for other in begun)

    def say(self, member: Member, message: Say, now: float) -> None:
        """Send a text to the authority."""
        # Here and not at the authority, which knows nothing of tenants in other gateways.
        if not self.knows(member, message.id):
            member.charge(now)
        self._request(member, message, now)

    def change_settings(self, member: Member, message: Set, now: float) -> None:
        """Send a change of the settings to the authority."""
        if message.speaker is not None:
            member.speaker = message.speaker or None
        self._request(member, message, now)

    def finish_speaking(self, member: Member, now: float) -> None:
        """Tell the authority that a member will say no more."""
        if member.in_flight:
            self._request(member, Bye(), now)

    def _request(
        self, member: Member, message: Request, now: float, langs: tuple[str, ...] | None = None
    ) -> None:
        """Send a member's request to the authority. Raises `ClientFault` (``busy``).

        The member has an utterance in flight until the request is answered.
        """
        requests = self._requests[member.id]
        requests.add(message, langs)
        self._ask(member.id, requests)

    cancel = edit = retract = get = _request

    def dismiss(self) -> bool:
        """Ask the authority to end the room; return whether there is one."""
        if self.greeted:
            self._post(messages.Dismissed(*self._origin))
        return self.greeted

    # --- the authority ----------------------------------------------------------------------------

    def owned(self, gateway: str | None) -> None:
        """Note which gateway has the authority; None if no gateway has."""
        self.owner = gateway
        self.introduce()

    def introduce(self) -> None:
        """Tell the authority who is here: it is a new one, or messages may be lost."""
        self.greeted = False
        if self.owner is not None and not self.ended:
            members = self.subscribers.members.values()
            state = tuple(self._state(member) for member in members)
            self._introductions += 1
            # The introduction says all of it.
            self._later.clear()
            message = messages.Present(self.name, self._gateway, "", state, self._introductions)
            self._send(self.owner, message)

    def apply(self, message: messages.FeedMessage, now: float) -> None:
        """Apply a message of the authority."""
        # In order and without holes by themselves, so they need no number and no greeting.
        if isinstance(message, messages.Decided):
            self._decide(message, now)
            return
        if isinstance(message, messages.Ended):
            self.close_sockets()
            return
        if self.owner is None:  # a late word of an authority that is gone
            return
        if isinstance(message, messages.Greeted) and self._awaits(message):
            self._heard = message.number
            self._greet(message, now)
            return
        if not self.greeted:
            return
        self._heard += 1
        # A message was lost, and which one is unknown, so the whole state is asked for.
        if message.number != self._heard:
            self.introduce()
            return
        match message:
            case messages.Grown(delta=delta):
                self._members.grown = message.frames.envelope(delta)
                self.subscribers.show(self._growing.grow(delta), now)
            case messages.Told(event=event) if event is not None:
                if isinstance(event, Degraded):
                    self._degraded = event if event.engine or event.partials == "off" else None
                self.subscribers.tell(message.frames.envelope(event), None, now)
            case messages.Addressed():
                self._address(message, now)
            case messages.Answered():
                self._answer(message.member, message.asked, message.inflight, now)
            case messages.Replaced(gateway=gateway, member=id) if gateway == self._gateway:
                # The requests of two gateways may arrive out of order, and then this socket is the
                # newer one. So its client, if there still is one, may come back.
                if (member := self.subscribers.members.get(id)) is not None:
                    member.outbox.close(CloseCode.GOAWAY, MOVED)
            case messages.Unheard(gateway=gateway) if gateway == self._gateway:
                self.introduce()

    def reach(self, reached: bool, now: float) -> None:
        """Tell everybody whether the authority can be reached: without it nothing is translated."""
        self._reached = reached
        self.subscribers.tell(Envelope(self.degraded or Degraded(partials="on")), None, now)

    def close_sockets(
        self, code: CloseCode = CloseCode.ROOM_ENDED, reason: str = "The room has ended."
    ) -> None:
        """Close the sockets of all members: the room has ended, or cannot be followed (4000)."""
        self.ended, self.greeted = True, False
        for member in self.subscribers.members.values():
            member.outbox.close(code, reason)

    # --- inside -----------------------------------------------------------------------------------

    def _greet(self, message: messages.Greeted, now: float) -> None:
        if self.log.seq and message.epoch != self.log.epoch:
            # It has begun anew, and this replica has missed it.
            self.close_sockets(CloseCode.GOAWAY, MOVED)
            return
        self.log.epoch, self.began = message.epoch, message.began
        # The same authority still has what was asked before; another one never saw it.
        same, self._term = message.term == self._term, message.term
        self.greeted = True
        self._degraded = message.degraded
        for delta in self._growing.replace(message.growing):
            self.subscribers.show(delta, now)
        for later in self._later:
            self._post(replace(later, term=self._term))
        self._later.clear()
        for id, requests in list(self._requests.items()):
            # Nobody can tell whether the old authority has carried them out.
            if requests.may_be_lost(same=same):
                requests.clear()
                self.subscribers.members[id].outbox.close(CloseCode.GOAWAY, MOVED)
            else:
                self._answer(id, requests.sent, message.inflight.get(id, ()), now)
                self._ask(id, requests)

    def _awaits(self, message: messages.Greeted) -> bool:
        """Tell whether a message answers the last introduction of this replica."""
        mine = message.gateway == self._gateway and not self.greeted
        return mine and message.introduction == self._introductions

    def _state(self, member: Member) -> messages.MemberState:
        return messages.MemberState(
            member.id,
            member.role,
            member.speaker,
            member.langs,
            member.view,
            self._requests[member.id].sent,
            self._tenant,
            member.outbox.codec,
            member.spoken,
        )

    def _ask(self, id: str, requests: MemberRequests) -> None:
        if not self.greeted:
            return
        for number, message, langs in requests.unsent():
            self._post(messages.Asked(*self._origin, id, number, message, langs))

    def _tell(self, message: messages.InboxMessage) -> None:
        """Tell the authority of a change, or later if it has not greeted yet."""
        if self.greeted:
            self._post(message)
        elif self.owner is not None:  # else the introduction will say it
            self._later.append(message)

    @property
    def _origin(self) -> tuple[str, str, str]:
        """The first fields of every message: room, gateway and term."""
        return self.name, self._gateway, self._term

    def _post(self, message: messages.InboxMessage) -> None:
        assert self.owner is not None, "an authority has greeted"
        self._send(self.owner, message)

    def _decide(self, message: messages.Decided, now: float) -> None:
        event, log = message.event, self.log
        assert event.seq is not None, "a durable event has a number"
        if not log.epoch:
            log.epoch, self.began = message.epoch, message.began
        log.seq = log.seq or event.seq - 1  # the log may have dropped its oldest events
        if message.epoch != log.epoch:  # Redis has lost the log, and this gateway came too late
            self.close_sockets(CloseCode.GOAWAY, MOVED)
            return
        # It came with the log that this replica has read since.
        if event.seq <= log.seq:
            return
        if isinstance(event, Retracted):
            log.erase(event.ord)
        if isinstance(event, Edited) and message.lang is None:
            log.originals.add(event.seq)
        if message.author is not None:
            log.authors[event.seq] = message.author
        log.append(event, log.began + message.at)
        # Recognisers of this gateway are told names and terms too.
        restore.learn(self.translation_context, event)
        self._growing.forget_ended(event)
        reply = None
        member = self.subscribers.members.get(message.member or "")
        if member is not None:
            reply = Reply(member, message.ref, message.tag)
        self.subscribers.publish(message.frames.envelope(event), message.lang, now, reply)

    def _address(self, message: messages.Addressed, now: float) -> None:
        member = self.subscribers.members.get(message.member)
        if member is None:
            return
        envelope = Envelope(message.event)
        # Snapshots of what was said before are many, and a slow reader is not sent all of them.
        optional = isinstance(message.event, Snapshot) and message.event.ref is None
        if not optional or member.outbox.fits([envelope]):
            member.outbox.push(envelope, now)

    def _answer(self, id: str, asked: int, inflight: tuple[str, ...], now: float) -> None:
        requests = self._requests.get(id)
        if requests is None:
            return
        requests.answered(asked, inflight)
        self.subscribers.members[id].ended(now)
