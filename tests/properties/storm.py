"""A meeting in three gateways over a slow network, whose owners come and go.

As in `tests.properties.world`, a tape of numbers chooses the next thing that happens. Clients
behave as ours do: after a lost socket they come back anywhere, and say again what had no end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from gateway.auth.permissions import Role
from gateway.core.history.event_log import StreamPosition
from gateway.errors import CloseCode, ErrorCode
from gateway.limits import Limits
from gateway.protocol.messages import Cancelled, Retracted, ServerMessage, Source, Welcome
from gateway.protocol.notices import Error, Tick
from tests.support.fleet import FleetMeeting, Gateway
from tests.support.meeting import Peer

T = TypeVar("T")

LIMITS = Limits(
    inflight=500, queue=5_000, linger_s=6.0, log=10_000, rate=1e6, burst=1_000_000, utterances=2_000
)
LANGS = (("de",), ("fr", "de"), ("en",), ("de-AT",), ())
WORDS = "So we met in March and it was cold but we went on".split()
PIECES = ("a", " b", " c")


class Client:
    """A client that comes back.

    ``said`` are its utterances without an end that it knows of, by id, with text and finality.
    """

    def __init__(self, peer: Peer, langs: tuple[str, ...], role: Role) -> None:
        self.peer = peer
        self.langs = langs
        self.role = role
        self.said: dict[str, tuple[str, bool]] = {}
        self.seqs: list[tuple[int, str | None]] = []
        self.cancelled: set[str] = set()
        self.first = 0

    @property
    def replica(self) -> object:
        return self.peer.session.room


class Storm:
    """A meeting, and everything that can happen to it."""

    def __init__(self, tape: Sequence[int]) -> None:
        self.tape = iter(tape)
        self.left = len(tape)
        self.trace: list[str] = []
        self.meeting = FleetMeeting(
            "en", "de", "fr", limits=LIMITS, capacity=4, slow=True, gateways=3
        )
        self.clients: list[Client] = []
        self.ids = 0
        self.gateways = 3
        self.spoken: set[str] = set()
        self.withdrawn: set[str] = set()
        for _ in range(2):
            self.come()

    def run(self) -> None:
        steps = self.steps()
        while self.left > 0:
            step = steps[self.pick(len(steps))]
            self.trace.append(step.__name__)
            step()
            self.meeting.act()
            self.look()
        self.end()

    def steps(self) -> tuple[Callable[[], None], ...]:
        return (
            *(self.speak, self.speak, self.grow, self.grow, self.come, self.cut),
            *(self.cancel, self.edit, self.retract, self.want, self.bye),
            *(self.write, self.write, self.deliver, self.deliver, self.receive, self.receive),
            *(self.write_all, self.deliver_all, self.receive_all, self.receive_all),
            *(self.begin, self.feed, self.finish, self.finish, self.fail),
            *(self.lose_message, self.crash, self.elect, self.elect, self.kill, self.start),
            *(self.wait, self.gap, self.outage, self.lose_data),
        )

    def pick(self, n: int) -> int:
        self.left -= 1
        return next(self.tape, 0) % n

    def choose(self, items: Sequence[T]) -> T | None:
        return items[self.pick(len(items))] if items else None

    def gateway(self) -> Gateway:
        return list(self.meeting.gateways.values())[self.pick(len(self.meeting.gateways))]

    # --- clients

    def come(self) -> None:
        if len(self.clients) < 5:
            role = (Role.SPEAK, Role.VIEW, Role.MODERATE)[self.pick(3)]
            langs = LANGS[self.pick(len(LANGS))]
            gateway = self.gateway()
            self.ids += 1
            if gateway.replica.log.epoch:
                peer = self.meeting.enter(
                    *langs, id=f"c{self.ids}", role=role, gateway=gateway.name, greeted=False
                )
                self.trace.append(f"  c{self.ids} {role} {langs} at {gateway.name}")
                client = Client(peer, langs, role)
                self.clients.append(client)
                client.first = gateway.replica.log.seq

    def speaker(self) -> Client | None:
        return self.choose([one for one in self.clients if one.role is not Role.VIEW])

    def speak(self) -> None:
        client = self.speaker()
        if client is not None:
            self.ids += 1
            self.say(client, f"u{self.ids}x", WORDS[self.pick(len(WORDS))], True)

    def grow(self) -> None:
        client = self.speaker()
        if client is not None:
            growing = [id for id, (_, final) in client.said.items() if not final]
            if growing and self.pick(3):
                id = growing[self.pick(len(growing))]
                text = " ".join(WORDS[: len(client.said[id][0].split()) + 1])
                self.say(client, id, text, self.pick(3) == 2)
            else:
                self.ids += 1
                self.say(client, f"u{self.ids}x", WORDS[0], False)

    def say(self, client: Client, id: str, text: str, final: bool) -> None:
        self.trace.append(f"  {client.peer.session.id} {id} {text!r} {final}")
        client.said[id] = (text, final)
        self.read(client, client.peer.send("say", id=id, text=text, final=final))

    def known(self) -> str | None:
        return self.choose(
            sorted({e.event.id for e in self.meeting.entries() if isinstance(e.event, Source)})
        )

    def send(self, type: str, **fields: object) -> None:
        client = self.speaker()
        if client is not None:
            self.trace.append(f"  {client.peer.session.id} {type} {fields}")
            self.read(client, client.peer.send(type, **fields))

    def cancel(self) -> None:
        client = self.speaker()
        if client is not None and client.said:
            id = sorted(client.said)[self.pick(len(client.said))]
            self.withdrawn.add(id)
            client.said.pop(id)
            client.cancelled.add(id)
            self.read(client, client.peer.send("cancel", id=id))

    def edit(self) -> None:
        id = self.known()
        if id is not None:
            self.send("edit", id=id, lang=("de", "en")[self.pick(2)], text="corrected")

    def retract(self) -> None:
        id = self.known()
        if id is not None:
            self.withdrawn.add(id)
            self.send("retract", id=id)

    def want(self) -> None:
        client = self.choose(self.clients)
        if client is not None:
            view = ("live", "stable", "final")[self.pick(3)]
            self.read(client, client.peer.send("want", langs=list(client.langs), view=view))

    def bye(self) -> None:
        client = self.choose(self.clients)
        if client is not None and not client.said:
            self.read(client, client.peer.send("bye"))

    def cut(self) -> None:
        client = self.choose(self.clients)
        if client is not None:
            client.peer.cut()
            self.back(client)

    def back(self, client: Client) -> None:
        """Return with another socket, to any gateway, and say unfinished texts again."""
        self.read(client, client.peer.events())
        gateway, old = self.gateway(), client.peer
        while old.screen.seq > gateway.replica.log.seq and gateway.feed:
            self.meeting.deliver(gateway)  # as the log is read before the socket is opened
        since = StreamPosition("epoch", old.screen.seq)
        client.peer = self.meeting.enter(
            *client.langs,
            id=old.session.id,
            role=client.role,
            gateway=gateway.name,
            since=since,
            greeted=False,
        )
        client.peer.screen = old.screen
        self.trace.append(f"  {old.session.id} is back at {gateway.name} from {old.screen.seq}")
        for id, (text, final) in list(client.said.items()):
            self.read(client, client.peer.send("say", id=id, text=text, final=final))
        for id in sorted(client.cancelled):
            self.read(client, client.peer.send("cancel", id=id))

    def look(self) -> None:
        """Let all clients read."""
        for client in list(self.clients):
            self.read(client, client.peer.events())
            if client.peer.session.outbox.closing is not None:
                code = client.peer.session.outbox.closing
                self.trace.append(f"  {client.peer.session.id} closed {code!r}")
                assert code in (CloseCode.GOAWAY, CloseCode.DONE), code
                if code is CloseCode.DONE:
                    client.peer.close()
                    self.clients.remove(client)
                else:
                    client.peer.cut()
                    self.back(client)
                    self.read(client, client.peer.events())

    def read(self, client: Client, events: Sequence[ServerMessage]) -> None:
        for event in events:
            seq = getattr(event, "seq", None)
            if seq is not None and not isinstance(event, Welcome | Tick):
                client.seqs.append((seq, getattr(event, "lang", None)))
            match event:
                case Source(id=id) | Retracted(id=id) | Cancelled(id=id, lang=None):
                    client.said.pop(id, None)
                    if not isinstance(event, Source):
                        self.withdrawn.add(id)
                case Error(id=str() as id, code=code) if code != ErrorCode.BUSY:
                    client.said.pop(id, None)

    # --- network

    def write(self) -> None:
        if self.meeting.unwritten:
            self.meeting.write()

    def deliver(self) -> None:
        gateway = self.gateway()
        if gateway.feed:
            self.meeting.deliver(gateway)

    def receive(self) -> None:
        gateway = self.choose([one for one in self.meeting.gateways.values() if one.inbox])
        if gateway is not None:
            self.meeting.receive(gateway)

    def write_all(self) -> None:
        while self.meeting.unwritten:
            self.meeting.write()

    def deliver_all(self) -> None:
        gateway = self.gateway()
        while gateway.feed:
            self.meeting.deliver(gateway)

    def receive_all(self) -> None:
        for gateway in self.meeting.gateways.values():
            while gateway.inbox:
                self.meeting.receive(gateway)

    def lose_message(self) -> None:
        self.meeting.lose_message(self.gateway())

    def gap(self) -> None:
        self.gateway().replica.introduce()

    def outage(self) -> None:
        """Let Redis be away for ten minutes, while members go on and nothing is delivered."""
        meeting = self.meeting
        for gateway in meeting.gateways.values():
            gateway.replica.reach(False, meeting.now)
        steps = (self.speak, self.grow, self.cancel, self.bye, self.feed, self.finish)
        for _ in range(self.pick(8)):
            steps[self.pick(len(steps))]()
            meeting.act()
        for _ in range(60):
            self.look()
            meeting.wait(10.0)
        for gateway in meeting.gateways.values():
            gateway.replica.reach(True, meeting.now)
        if meeting.owner is not None:
            meeting.authority.resume_feed()

    # --- owners

    def crash(self) -> None:
        if self.meeting.owner is not None:
            self.meeting.lose_authority()

    def elect(self) -> None:
        if self.meeting.owner is None:
            gateway = self.gateway()
            self.trace.append(f"  {gateway.name} owns the room")
            self.meeting.take(gateway.name)

    def kill(self) -> None:
        if len(self.meeting.gateways) > 1:
            name = self.gateway().name
            self.trace.append(f"  {name} is killed")
            lost = self.meeting.kill(name)
            for client in self.clients:
                if client.peer in lost:
                    client.peer.session.outbox.detach()
                    self.back(client)

    def start(self) -> None:
        if len(self.meeting.gateways) < 3:
            self.gateways += 1
            self.meeting.add_gateway(f"g{self.gateways}")

    def lose_data(self) -> None:
        """Let Redis lose its data, as a client comes to a gateway that has nothing of the room."""
        if self.meeting.owner is not None:
            self.gateways += len(self.meeting.gateways) < 4
            name = f"g{self.gateways}" if len(self.meeting.gateways) < 4 else None
            self.meeting.lose_data(name)
            self.come()

    # --- engine and time

    def begin(self) -> None:
        job = self.choose(list(self.meeting.given.values()))
        if job is not None:
            self.meeting.begin(job)

    def feed(self) -> None:
        job = self.choose(list(self.meeting.jobs.values()))
        if job is not None:
            self.meeting.feed(job, PIECES[self.pick(3)], reset=self.pick(6) == 5)

    def finish(self) -> None:
        job = self.choose(list(self.meeting.jobs.values()))
        if job is not None:
            self.meeting.finish(job)

    def fail(self) -> None:
        job = self.choose(list(self.meeting.jobs.values()))
        if job is not None:
            self.meeting.fail(job)

    def wait(self) -> None:
        self.meeting.wait((0.3, 1.0, 4.0)[self.pick(3)])

    # --- the end

    def end(self) -> None:
        """Let the network be quick again, and check the events that everybody has seen."""
        meeting = self.meeting
        if meeting.owner is None:
            meeting.take(self.gateway().name)
        meeting.pump()
        meeting.authority.resume_feed()  # as gateways do once a second
        meeting.pump()
        for gateway in meeting.gateways.values():
            if not gateway.replica.greeted:
                gateway.replica.introduce()
        self.settle()
        for _ in range(8):  # what was refused is said again
            if not any(client.said for client in self.clients):
                break
            for client in list(self.clients):
                for id, (text, final) in list(client.said.items()):
                    self.say(client, id, text if final else text + " end", True)
            self.settle()
        meeting.wait(100.0)
        self.settle()
        entries = [entry.event for entry in meeting.entries()]
        assert [event.seq for event in entries] == list(range(1, len(entries) + 1))
        sources = [event.id for event in entries if isinstance(event, Source)]
        assert len(sources) == len(set(sources)), "an utterance was said twice"
        assert meeting.room.settled
        for utterance in meeting.room.utterances.by_id.values():
            assert utterance.ended, utterance
        for gateway in meeting.gateways.values():
            assert gateway.replica.log.since(0) == meeting.room.log.since(0)
            assert gateway.replica.greeted
            growing = [gateway.replica._growing.of(lang) for lang in ("de", "fr", "en")]
            assert growing == [[], [], []], "a caption that never ends"
        for client in self.clients:
            assert not client.said, f"{client.peer.session.id} has lost {client.said}"
            self.compare(client)

    def settle(self) -> None:
        """Let everything happen that is under way."""
        for _ in range(5):
            self.meeting.pump()
            self.meeting.act()
            self.meeting.finish_all()
            self.look()

    def compare(self, client: Client) -> None:
        """Check that a client was sent all that concerns it, each once, and shows the same text."""
        log, room = self.meeting.room.log, client.peer.session.room
        langs = {None, *map(room.subscribers.served_by, client.langs)}
        concerns = [event.seq for event, _ in log.entries() if log.concerns(event) in langs]
        missed = {seq for seq in concerns if seq is not None and seq > client.first} - {
            seq for seq, _ in client.seqs
        }
        assert not missed, f"{client.peer.session.id} has missed {missed}"
        twice = [seq for seq in client.seqs if client.seqs.count(seq) > 1]
        assert not twice, f"{client.peer.session.id} was sent {twice} again"
        for utterance in self.meeting.room.utterances.by_id.values():
            for tag in client.langs:
                caption = utterance.captions.get(room.subscribers.served_by(tag))
                shown = client.peer.screen.captions.get((utterance.id, tag))
                if caption is not None and caption.state.value == "final":
                    if utterance.seq > client.first and not utterance.retracted:
                        assert shown is not None and shown.stable == caption.stable
