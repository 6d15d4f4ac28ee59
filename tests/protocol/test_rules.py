"""The eight rules of the protocol, each checked as a client would check it.

The decisions behind the rules have tests of their own.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.auth.permissions import Role
from gateway.core.delivery.outbox import Outbox
from gateway.core.streaming.segmentation import SegmentLengths
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import (
    DURABLE,
    Cancelled,
    Delta,
    Failed,
    Final,
    ServerMessage,
    Source,
    View,
)
from gateway.protocol.notices import Tick
from gateway.text import word_units
from tests.properties.world import World
from tests.support.meeting import EAGER, NOW, Meeting, Peer, meeting, one, only, read
from tests.support.screen import Screen

LANGS = ("de", "fr", "es")
SHORT = replace(EAGER, lengths=SegmentLengths(least=2, clause=2, most=4, hard=6, behind=1))
SPEECH = "So we met. It was cold. Then we went on and it was warm".split()


def monologue(room: Meeting, peer: Peer) -> None:
    """Speak `SPEECH` word by word, and translate every text word by word at once."""
    for count in range(1, len(SPEECH) + 1):
        peer.say(" ".join(SPEECH[:count]), id="u1", final=count == len(SPEECH))
        while room.jobs:
            for job in list(room.jobs.values()):
                whole = " ".join(f"{word}/{job.target}" for word in job.text.split())
                head, *tail = word_units.split(whole.removeprefix(job.prefix), spaced=True)
                room.finish(job, head, *tail)


# --- 1 ------------------------------------------------------------------------------------------


def test_rule_1_a_caption_is_its_stable_text_followed_by_its_draft() -> None:
    room, peer = meeting("de")
    for text, made in (("one two", "eins 😀"), ("one two three", "eins 😀 drei")):
        peer.say(text, id="x", final=False)
        room.finish(room.job("de"), made)
        (delta,) = only(Delta, peer.events())
        caption = peer.screen["x", "de"]
        assert caption.stable + caption.draft == made
        assert delta.n == len(caption.stable), "code points of the stable text"
    assert caption.draft == " drei", "spaces are in the text"


# --- 2 ------------------------------------------------------------------------------------------


def test_rule_2_a_client_that_ignores_ephemeral_events_ends_with_the_same_text() -> None:
    room, speaker = meeting(options=SHORT)
    readers = [room.enter("de", role=Role.VIEW) for _ in ("everything", "durable")]
    everything, durable = Screen(strict=True), Screen()
    monologue(room, speaker)
    for reader, screen in zip(readers, (everything, durable), strict=True):
        for frame in reader.session.outbox.take():
            event = read(frame)
            if screen is everything or isinstance(event, DURABLE):
                screen.show(event)
    assert len(durable.captions) > 2
    assert {key: shown.text for key, shown in everything.captions.items()} == {
        key: shown.text for key, shown in durable.captions.items()
    }


# --- 3 ------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.binary(min_size=60, max_size=400))
def test_rule_3_every_requested_caption_ends_exactly_once(tape: bytes) -> None:
    """`World` counts the ends. ``properties/test_session_machine.py`` has longer runs."""
    world = World(tape)
    world.run()
    assert world.decided.asked <= set(world.decided.ends)
    assert set(world.decided.ends.values()) <= {1}


def test_rule_3_source_text_is_never_returned_as_a_translation() -> None:
    room, peer = meeting("en", "de")
    final = one(Final, peer.say("hello"))
    assert (final.lang, final.by) == ("en", "same")
    room.fail(room.job("de"))
    failed = one(Failed, peer.events())
    assert "hello" not in str(failed)


# --- 4 ------------------------------------------------------------------------------------------


def test_rule_4_after_cancelled_nothing_of_that_revision_arrives() -> None:
    room = Meeting(lazy=True)
    peer = room.enter("de")
    peer.say("hello", id="x", final=False)
    (job,) = room.given.values()
    room.begin(job)
    room.feed(job, "hal")
    assert one(Cancelled, peer.send("cancel", id="x")).rev == 1
    room.feed(job, "lo")
    room.room.captioner.finished(job.id, room.now)
    room.wait(60.0)
    assert peer.events() == []
    assert peer.session.outbox.closing is None


def test_rule_4_a_cancel_is_never_an_error() -> None:
    _, peer = meeting("de")
    peer.say("hello", id="x")
    for id in ("x", "x", "never"):
        one(Cancelled, peer.send("cancel", id=id))


# --- 5 ------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.data())
def test_rule_5_readers_get_only_their_language_and_a_slow_language_delays_no_other(
    data: st.DataObject,
) -> None:
    """The engine has a different speed for each language, and never finishes one of them."""
    pace = {lang: data.draw(st.integers(1, 6), label=lang) for lang in LANGS}
    stuck = data.draw(st.sampled_from(LANGS), label="stuck")
    room = Meeting(capacity=100, options=SHORT)
    speaker = room.enter()
    readers = {lang: room.enter(lang, role=Role.VIEW) for lang in LANGS}
    shown: dict[str, list[str]] = {lang: [] for lang in LANGS}
    for step in range(6 * 10):
        if step < len(SPEECH):
            text = " ".join(SPEECH[: step + 1])
            speaker.say(text, id="u1", final=step + 1 == len(SPEECH))
        for job in list(room.jobs.values()):
            if job.target != stuck and step % pace[job.target] == 0:
                room.finish(job, f"[{job.target}] {job.text}".removeprefix(job.prefix))
        for lang, reader in readers.items():
            for event in reader.events():
                if isinstance(event, Delta | Final | Failed | Cancelled):
                    assert event.lang == lang
                shown[lang] += [event.id] if isinstance(event, Final) else []
    said = [source.id for source in only(Source, room.log)]
    for lang in LANGS:
        assert sorted(shown[lang]) == ([] if lang == stuck else said)


def test_rule_5_a_slow_sentence_delays_no_other() -> None:
    room, peer = meeting("de")
    peer.say("slow")
    for n in range(5):
        peer.say(f"fast {n}")
        room.finish(room.job("de", f"fast {n}"), "schnell")
        assert one(Final, peer.events()).id == f"u{n + 2}"


# --- 6 ------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.binary(min_size=60, max_size=400))
def test_rule_6_stable_text_never_shrinks_without_a_reset(tape: bytes) -> None:
    """Every `Screen` checks ``n`` after each delta, and a strict one that a final continues it."""
    World(bytes([tape[0], 1, *tape[1:]])).run()


def test_rule_6_the_stable_view_gets_no_draft_and_the_final_view_no_delta() -> None:
    room, speaker = meeting(options=SHORT)
    views: tuple[View, ...] = ("live", "stable", "final")
    readers = {view: room.enter("de", role=Role.VIEW, view=view) for view in views}
    monologue(room, speaker)
    deltas = {view: only(Delta, reader.events()) for view, reader in readers.items()}
    assert any(delta.draft for delta in deltas["live"])
    assert any(delta.add for delta in deltas["stable"])
    assert all(delta.draft is None for delta in deltas["stable"])
    assert deltas["final"] == []
    assert not any(delta.reset for delta in deltas["stable"])


# --- 7 ------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.binary(min_size=60, max_size=400), st.integers(0, 200))
def test_rule_7_the_durable_events_after_any_number_can_be_replayed(tape: bytes, seq: int) -> None:
    world = World(tape)
    world.run()
    room = world.room
    heard = [world.decided.kept(event) for event in world.decided.log]
    seq = min(seq, room.log.seq)
    assert room.log.since(seq) == heard[seq:]


def test_rule_7_replayed_events_are_those_that_a_reader_of_everything_received() -> None:
    room, speaker = meeting(options=SHORT)
    reader = room.enter(*LANGS, role=Role.VIEW)
    monologue(room, speaker)
    speaker.say("hello", id="x")
    speaker.send("set", context="a stand-up")
    speaker.send("cancel", id="x")
    heard: list[ServerMessage] = [e for e in reader.events() if isinstance(e, DURABLE)]
    assert heard == room.room.log.since(0)
    for seq in range(room.room.log.seq + 1):
        assert heard[:seq] + (room.room.log.since(seq) or []) == heard


# --- 8 ------------------------------------------------------------------------------------------


def test_rule_8_a_slow_socket_never_changes_what_a_fast_socket_gets() -> None:
    told = []
    for company in (False, True):
        room, speaker = meeting(options=SHORT, outbox_bytes=4_800)
        fast = room.enter("de", role=Role.VIEW, codec=Codec.MSGPACK)
        slow = room.enter("de", role=Role.VIEW) if company else None
        frames: list[str | bytes] = []
        fast.session.outbox.wake = lambda frames=frames, fast=fast: frames.extend(  # type: ignore[misc]
            fast.session.outbox.take()
        )
        fast.session.outbox.take()
        monologue(room, speaker)
        assert fast.session.outbox.closing is None
        told.append(frames)
        if slow is not None:
            assert slow.session.outbox.closing is CloseCode.TOO_SLOW
    assert told[0] == told[1]


@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=60)), max_size=60))
def test_rule_8_the_memory_of_a_slow_socket_is_bounded(said: list[tuple[int, str]]) -> None:
    outbox = Outbox(Codec.JSON, Limits(outbox_bytes=2_000))
    length = 0
    for kind, text in said:
        length += len(text)
        delta = Delta(id=f"u{kind}", rev=1, lang="de", add=text, n=length)
        outbox.push(Envelope(delta if kind else Tick(seq=1)), NOW)
        assert outbox.bytes <= 2_000
        assert outbox.bytes == sum(size for _, _, size, _ in outbox._queue.values())
    assert outbox.closing is None, "no durable event waits"


def test_rule_8_a_slow_socket_gets_the_newest_draft_and_every_durable_event() -> None:
    room, speaker = meeting(options=SHORT)
    late = room.enter("de", role=Role.VIEW)
    monologue(room, speaker)
    frames = len(late.session.outbox)
    events = late.events()
    assert len(only(Delta, events)) < len(only(Final, events)) * 3
    assert frames == len(events)
    assert [event for event in events if isinstance(event, DURABLE)] == room.room.log.since(0)
