"""Speech in a room of several gateways."""

from __future__ import annotations

from gateway.protocol.messages import Final, Source
from tests.support.fleet import FleetMeeting
from tests.support.heard import HandService
from tests.support.meeting import one


def test_speech_is_heard_by_the_gateway_of_the_socket_and_translated_by_the_owner() -> None:
    room = FleetMeeting()
    room.enter("de", gateway="g1")
    service = room.speech = HandService(room)
    speaker = room.enter("de", gateway="g2")
    speaker.send("audio", codec="pcm_s16le")
    (worker,) = service.workers
    worker.speak(1.2)
    worker.answer("one two three")
    worker.hush()
    while worker.job is not None:
        worker.answer("one two three")
    events = speaker.events()
    source = one(Source, events)
    assert (source.text, source.lang) == ("one two three", "en")
    assert source.t0 is not None
    room.finish_all()
    assert one(Final, speaker.events()).t0 == source.t0
