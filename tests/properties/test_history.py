"""A room restored from its log has the utterances and captions of the one before."""

from __future__ import annotations

from hypothesis import given, note, settings
from hypothesis import strategies as st

from gateway.core.history.event_log import EventLog
from gateway.core.room.room import Room, RoomOptions
from gateway.core.utterances.caption_state import CaptionState
from gateway.core.utterances.utterance import Utterance
from gateway.limits import Limits
from tests.properties.choices import LIMITS
from tests.properties.world import World
from tests.support.meeting import NOW

MANY = Limits(log=LIMITS.log)


def restored(world: World) -> Room:
    """Return the room in another process, restored from the log."""
    log = EventLog("another", MANY, began=NOW)
    log.restore(world.room.log.entries(), world.room.log.authors)
    meeting = world.meeting
    options = RoomOptions(scheduler=meeting.scheduler, model=meeting.model, limits=MANY)
    return Room("again", log, options)


def known(utterance: Utterance) -> tuple[object, ...]:
    """Return the state of an utterance that must survive, without its captions."""
    u = utterance
    said = (u.id, u.rev, u.ord, u.lang, u.text, u.final, u.statement)
    return (*said, u.cancelled, u.retracted)


@settings(max_examples=150)
@given(st.binary(min_size=60, max_size=500))
def test_a_restored_room_has_the_utterances_and_captions_of_the_one_before(tape: bytes) -> None:
    world = World(tape)
    world.run()
    room = restored(world)
    note("\n".join(world.trace))
    for utterance in world.room.utterances.by_id.values():
        if not utterance.final:
            assert utterance.id not in room.utterances.by_id
            continue
        other = room.utterances.by_id[utterance.id]
        assert other.ended
        assert known(other) == known(utterance)
        for lang, caption in utterance.captions.items():
            if caption.state is CaptionState.CANCELLED and lang not in other.captions:
                assert utterance.cancelled
                continue
            made = other.captions[lang]
            assert made.state is caption.state
            if caption.state is CaptionState.FINAL:
                assert (made.stable, made.by) == (caption.stable, caption.by)
    assert room.log.seq == world.room.log.seq
    brief, before = room.translation_context, world.room.translation_context
    assert (brief.version, brief.terms("a", "de")) == (before.version, before.terms("a", "de"))
