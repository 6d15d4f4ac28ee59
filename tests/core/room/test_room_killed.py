"""Captions that a killed process left unfinished end in the next process."""

from __future__ import annotations

import pytest

from gateway.core.history.event_log import StreamPosition
from gateway.limits import Limits
from gateway.protocol.messages import Failed, Final
from tests.support.history import History
from tests.support.meeting import Meeting

OPEN = 30
"""Utterances without a caption, more than a room backfills."""


def killed(clean: bool = False, apart: float = 0.1) -> History:
    """Return a restored meeting whose last originals have no German caption."""
    past = History()
    past.say("first", at=1.0)
    past.caption("first", "de", "Erste.", at=2.0)
    for n in range(OPEN):
        past.say(f"s{n}", f"Number {n}.", at=3.0 + apart * n)
    past.log.before = None if clean else StreamPosition("before", past.log.seq)
    return past


def read(past: History, limits: Limits | None = None) -> tuple[set[str], set[str]]:
    """Return the ids that are captioned and the ids that fail once German is read again."""
    known = past.log.seq
    meeting = Meeting(log=past.log, limits=limits or Limits())
    peer = meeting.enter("de", greeted=False)
    meeting.finish_all()
    events = peer.events()
    made = {event.id for event in events if isinstance(event, Final) and event.seq > known}
    return made, {event.id for event in events if isinstance(event, Failed)}


def test_interrupted_captions_are_made_when_their_language_is_read_again() -> None:
    assert read(killed()) == ({f"s{n}" for n in range(OPEN)}, set())


def test_interrupted_captions_without_a_place_in_the_queue_fail_visibly() -> None:
    made, declined = read(killed(), Limits(queue=24))
    assert made and declined
    assert made | declined == {f"s{n}" for n in range(OPEN)}
    assert not made & declined


def test_captions_that_ended_are_not_made_again() -> None:
    past = killed()
    past.caption("s1", "de", "Eins.", at=9.0)
    past.cancel("s2", "de", at=9.0)
    past.retract("s3", at=9.0)
    past.cancel("s4", at=9.0)
    made, declined = read(past)
    assert made | declined == {f"s{n}" for n in range(OPEN)} - {"s1", "s2", "s3", "s4"}


@pytest.mark.parametrize(("clean", "apart"), [(True, 0.1), (False, 10.0)])
def test_otherwise_who_comes_late_has_the_last_ones_made(clean: bool, apart: float) -> None:
    made, declined = read(killed(clean, apart), Limits(backfill=4))
    assert declined == set()
    assert made >= {f"s{n}" for n in range(OPEN - 4, OPEN)}
    assert "s1" not in made
