"""Text that is stable is never taken back, for all recognised texts and all outputs of the engine;
unless the source itself is changed where it had been agreed on.
"""

from __future__ import annotations

from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from gateway.auth.permissions import Role
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.partials import PartialTiming
from gateway.core.streaming.segmentation import SegmentLengths
from gateway.core.streaming.stability import StabilityRules
from gateway.job import Job
from gateway.protocol.messages import Cancelled, Delta, Final, ServerMessage, View
from tests.properties.world import ended
from tests.support.meeting import Meeting, Peer, only

STEP = 0.3
"""Seconds between two partials: less than `PartialTiming.stall`, after which all of one is
believed."""
FLOWS = (
    StreamingOptions(),
    StreamingOptions(pace=PartialTiming(step=1), stability=StabilityRules(hold=1, mask=1, agree=2)),
    StreamingOptions(
        pace=PartialTiming(step=1),
        lengths=SegmentLengths(least=3, clause=3, most=6, hard=8, behind=1),
        stability=StabilityRules(hold=0, mask=0, agree=2),
    ),
)
WORDS = "we. met so Then cold it, and.".split()
HAN = dict(zip(WORDS, "我们见面然后冷", strict=False))


class Engine:
    """An engine that mostly translates word by word, and continues the text it must begin with."""

    def __init__(self, room: Meeting, chance: Random) -> None:
        self.room = room
        self.chance = chance
        self.forced = False

    def work(self, job: Job) -> None:
        """Make something of one job, in two pieces."""
        self.forced |= not job.partial and job.prefix != ""
        rest = self.translation(job).removeprefix(job.prefix)
        for piece in (rest[: len(rest) // 2], rest[len(rest) // 2 :]):
            if job.id in self.room.jobs:
                self.room.feed(job, piece)
                self.room.act()
        if job.id in self.room.jobs:
            self.room.finish(job)

    def translation(self, job: Job) -> str:
        """Return a good translation, or one that is cut off, or partly or wholly invented."""
        words = job.text.split()
        if job.target == "zh":
            good = [HAN.get(word, "字") for word in words]
        else:
            good = [f" {word}/{job.target}" for word in words]
        kept = self.chance.choice([-1, -1, -1, 0, 1, 3, 5])
        other = self.chance.choice(["", " ja", " nein gut."])
        text = "".join(good if kept < 0 else [*good[:kept], other]).strip()
        return text if text.startswith(job.prefix) else job.prefix + other

    def some(self) -> None:
        """Finish some of the jobs."""
        for job in list(self.room.jobs.values()):
            if job.id in self.room.jobs and self.chance.random() < 0.7:
                self.work(job)

    def all(self) -> None:
        while self.room.jobs:
            self.work(next(iter(self.room.jobs.values())))


def recognised(chance: Random) -> list[str]:
    """Return partials that grow by words, some with a wrong last word, and then the whole text."""
    words = chance.choices(WORDS, k=chance.randint(1, 20))
    partials, count = [], 0
    while (count := count + chance.randint(1, 2)) < len(words):
        head = words[:count]
        if chance.random() < 0.3:
            head[-1] = f"hm{count}"  # another one every time: two in a row are agreed on
        partials.append(" ".join(head))
    return [*partials, " ".join(words)]


def meet(chance: Random) -> tuple[Meeting, Peer, list[Peer]]:
    room = Meeting(options=chance.choice(FLOWS))
    views: tuple[View, ...] = ("live", "stable")
    readers = [room.enter("de", "zh", role=Role.VIEW, view=view) for view in views]
    for reader in readers:
        reader.screen.strict = True
    return room, room.enter(), readers


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_stable_text_is_always_a_beginning_of_the_final_text(seed: int) -> None:
    chance = Random(seed)
    room, speaker, readers = meet(chance)
    engine = Engine(room, chance)
    said = recognised(chance)
    heard: list[list[ServerMessage]] = [[], []]
    for n, text in enumerate(said, 1):
        speaker.say(text, id="x", final=n == len(said))
        engine.some()
        room.wait(STEP)
        for events, reader in zip(heard, readers, strict=True):
            events += reader.events()
    engine.all()
    for events, reader in zip(heard, readers, strict=True):
        events += reader.events()
        finals = {(final.id, final.lang): final.text for final in only(Final, events)}
        assert finals or only(Cancelled, events)  # an empty translation is cancelled
        for key, text in finals.items():
            deltas = [delta for delta in only(Delta, events) if (delta.id, delta.lang) == key]
            assert not any(delta.reset for delta in deltas)
            assert text.startswith("".join(delta.add for delta in deltas))
        assert reader.screen.erased == 0
    event(f"something was stable: {any(delta.add for delta in only(Delta, heard[1]))}")
    event(f"a final was forced: {engine.forced}")
    assert not any(delta.draft for delta in only(Delta, heard[1]))


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_readers_of_retracted_text_are_sent_a_reset(seed: int) -> None:
    """The same with a speaker who may say anything next: only ``reset`` takes text back, which the
    strict screens of `meet` check, and every reader ends with the final text.
    """
    chance = Random(seed)
    room, speaker, readers = meet(chance)
    engine = Engine(room, chance)
    said = [recognised(chance)[-1] for _ in range(chance.randint(1, 6))]
    for n, text in enumerate(said, 1):
        speaker.say(text, id="x", final=n == len(said))
        engine.some()
        room.wait(chance.choice([STEP, 2.0]))
        for reader in readers:
            reader.events()
    engine.all()
    for reader in readers:
        reader.events()
    live, stable = map(ended, readers)
    assert live == stable
