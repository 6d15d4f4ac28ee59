"""Audio of a socket: what a client sends, and the events that follow."""

from __future__ import annotations

from gateway.protocol.messages import Error, Final, Source
from tests.support.meeting import Meeting, meeting, one


def test_a_gateway_without_a_recogniser_says_so() -> None:
    peer = Meeting().enter("de")
    for message in ("audio", "chunk"):
        (error,) = peer.send(message, codec="opus", data="")
        assert isinstance(error, Error)
        assert (error.code, error.fatal) == ("audio_unavailable", False)


def test_a_final_has_the_times_of_its_source() -> None:
    room, peer = meeting("de")
    source = one(Source, peer.say("hello", t0=1.5, t1=2.25))
    room.finish(room.job("de"), "hallo")
    final = one(Final, peer.events())
    assert (final.t0, final.t1) == (source.t0, source.t1) == (1.5, 2.25)
