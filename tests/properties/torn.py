"""Any meeting at all, in which sockets break and come back as well, and engines die.

To what a `World` can do are added: a socket that is lost with part of what it was sent unread, its
return on another one, before or after the time of grace, ``sync``, a reader that reads nothing for
a while, and the death of an engine. What a reader whose socket broke has read in the end, over all
its sockets, has to be what one has whose socket never did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gateway.auth.permissions import Role
from gateway.core.session.state import SessionState
from gateway.errors import CloseCode, ErrorCode
from gateway.limits import Limits
from gateway.protocol.messages import Edited, Final, ServerMessage, Source, Synced, Welcome
from gateway.protocol.notices import Error
from tests.properties.choices import LIMITS
from tests.properties.world import World, ended
from tests.support.meeting import Peer, read
from tests.support.screen import Screen

TORN = replace(LIMITS, grace_s=3.0)
LANGS = ("de", "fr")


class Torn:
    """A reader whose socket breaks, and the events that it has read over all of them."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.lost = False
        self.read: list[ServerMessage] = []
        self.seq = 0
        self.again: int | None = None
        """Number after which it has asked for the events again."""

    def take(self, most: int | None = None) -> None:
        """Read the frames that have come, or ``most`` of them."""
        outbox = self.peer.session.outbox
        while frames := outbox.take():
            for frame in frames if most is None else frames[:most]:
                self.hear(read(frame))
            if most is not None:
                break
            self.peer.meeting.act()

    def hear(self, event: ServerMessage) -> None:
        assert not isinstance(event, Error), event
        if isinstance(event, Welcome):
            assert event.resumed is None or event.resumed.ok
            return
        if isinstance(event, Synced):
            assert event.ok and self.again is not None
            self.read = [one for one in self.read if _seq(one) <= self.again]
            self.seq, self.again = self.again, None
            self.peer.screen = Screen()  # what it shows it has to be told anew
            for one in self.read:
                self.peer.screen.show(one)
            return
        self.peer.screen.show(event)
        seq = getattr(event, "seq", None)
        if seq is not None and event.__struct_config__.tag != "tick":
            assert seq > self.seq, f"{event} after {self.seq}"
            self.seq = seq
            self.read.append(event)


class TornWorld(World):
    """A meeting in which sockets break."""

    def __init__(self, tape: Sequence[int], limits: Limits = TORN) -> None:
        super().__init__(tape, limits)
        enter = self.meeting.enter
        self.whole = enter(*LANGS, role=Role.VIEW)
        self.told: list[ServerMessage] = []
        self.torn = [Torn(enter(*LANGS, role=Role.VIEW, greeted=False)) for _ in range(2)]
        self.away: list[Peer] = []
        self.more = (
            *(self.cut, self.cut, self.back, self.back, self.listen, self.listen),
            *(self.sync, self.lose, self.find, self.die),
        )

    def steps(self) -> tuple[Callable[[], None], ...]:
        return (*super().steps(), *self.more)

    # --- readers

    def cut(self) -> None:
        """Lose a reader's socket, and some of the frames on the way."""
        torn = self.choose([one for one in self.torn if not one.lost])
        if torn is not None:
            torn.take(self.pick(8))
            self.part(torn)

    def part(self, torn: Torn) -> None:
        torn.again = None
        torn.lost = True
        torn.peer.cut()

    def back(self, torn: Torn | None = None) -> None:
        torn = torn or self.choose([one for one in self.torn if one.lost])
        if torn is not None:
            screen = torn.peer.screen
            torn.peer = self.meeting.back(torn.peer, torn.seq)
            torn.peer.screen = screen
            torn.lost = False

    def listen(self) -> None:
        """Let a reader read; else it does not."""
        torn = self.choose([one for one in self.torn if not one.lost])
        if torn is not None:
            torn.take()

    def sync(self) -> None:
        torn = self.choose([one for one in self.torn if not one.lost and one.again is None])
        if torn is not None:
            torn.take()
            torn.again = max(0, torn.seq - self.pick(6))
            frame = f'{{"type":"sync","epoch":"{self.room.log.epoch}","seq":{torn.again}}}'
            torn.peer.session.receive(frame, self.meeting.now)

    # --- speakers

    def lose(self) -> None:
        """Lose a speaker's socket."""
        peer = self.choose([one for one in self.speakers if one.session.state is SessionState.OPEN])
        if peer is not None:
            self.speakers.remove(peer)
            peer.cut()
            self.away.append(peer)

    def find(self) -> None:
        """Let a speaker come back, in time or too late."""
        peer = self.choose(self.away)
        if peer is not None and len(self.speakers) < 3:
            self.away.remove(peer)
            self.speakers.append(self.meeting.back(peer))

    # --- the engine

    def die(self) -> None:
        """Fail all jobs of the engine."""
        if self.pick(3) == 2:
            for job in list(self.meeting.jobs.values()):
                if job.id in self.meeting.jobs:
                    self.meeting.fail(job, ErrorCode.ENGINE_UNAVAILABLE)
                    self.dead.append(job)

    # --- what must hold

    def check(self, before: dict[Peer, set[str]]) -> None:
        super().check(before)
        self.told += [e for e in self.whole.events() if _seq(e)]
        for torn in self.torn:
            self.expelled(torn)

    def expelled(self, torn: Torn) -> None:
        """Close a socket that did not read for too long; its client is told to reconnect."""
        closing = torn.peer.session.outbox.closing
        if closing is not None and not torn.lost:
            assert closing is CloseCode.TOO_SLOW and closing.reconnect
            torn.take()
            self.part(torn)

    def rest(self) -> None:
        """Pass time. Clients with unbroken sockets read meanwhile, or they would be too slow."""
        for _ in range(100):
            self.told += [e for e in self.whole.events() if _seq(e)]
            self.look_on()
            self.meeting.wait(1.0)

    def end(self) -> None:
        super().end()
        self.told += [e for e in self.whole.events() if _seq(e)]
        for torn in self.torn:
            self.expelled(torn)
            if torn.lost:
                self.back(torn)
                self.meeting.act()
            torn.take()
            assert list(map(self.bare, torn.read)) == list(map(self.bare, self.told))
            assert ended(torn.peer) == ended(self.whole)

    def bare(self, event: ServerMessage) -> ServerMessage:
        """Without the fields that depend on the time: the text of what was taken back since."""
        if isinstance(event, Source | Final | Edited) and event.ord in self.decided.gone:
            return replace(event, text="")
        return event


def _seq(event: ServerMessage) -> int:
    if isinstance(event, Welcome | Synced) or event.__struct_config__.tag == "tick":
        return 0
    return getattr(event, "seq", None) or 0
