"""The common part of both dialects, tried with that of transcription."""

from __future__ import annotations

import pytest

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.audio import Audio
from gateway.protocol.codec import decode, reference
from gateway.protocol.messages import AskStats
from gateway.protocol.notices import Error
from gateway.server.realtime.transcription import TranscriptionDialect
from tests.server.realtime.talk import PIECE, stats, welcome
from tests.server.realtime.test_transcription import APPEND, CLEAR, COMMIT, peer, session


def test_half_a_sample_waits_for_its_other_half() -> None:
    client = peer()
    assert client.send(APPEND, audio="AQID")[1:] == [b"\x01\x02"]
    assert client.send(APPEND, audio="BA==") == [b"\x03\x04"]
    assert client.send(APPEND, audio="BA==") == []


def test_the_clock_of_the_audio_counts_all_pieces_and_no_half_sample() -> None:
    client = peer()
    for _ in range(3):
        client.send(APPEND, audio=PIECE)
    client.send(APPEND, audio="AQID")  # a sample and a half
    client.ask(COMMIT)
    begun, piece = client.send(APPEND, audio=PIECE)
    assert isinstance(begun, Audio) and begun.t0 == pytest.approx(0.03, abs=0.001)
    assert piece == b"\x01\x02" * 240


def test_a_frame_over_the_rate_is_an_error_about_the_oldest_request() -> None:
    client = peer()
    client.send("session.update", session=session(), event_id="first")
    rate = Error(code="rate", fatal=False, retry=True, msg="Too many frames.")
    assert client.told(rate)[0]["error"]["event_id"] == "first"
    assert client.told(rate)[0]["error"]["event_id"] is None


@pytest.mark.parametrize(
    ("type", "code"),
    [
        ("response.create", "unknown_type"),
        ("session.close", "unknown_type"),
        ("input_audio_buffer.append", "bad_frame"),
    ],
)
def test_an_event_that_cannot_be_carried_out_is_refused(type: str, code: str) -> None:
    client = peer()
    assert client.send(type, event_id="mine") == []
    assert client.refused is not None
    assert client.refused["error"]["code"] == code
    assert client.refused["error"]["event_id"] == "mine"


@pytest.mark.parametrize("frame", ["", "[]", "{", b"\xff", "[" * 100_000])
def test_frames_that_are_no_events_are_refused(frame: str | bytes) -> None:
    dialect = TranscriptionDialect({})
    (meant,) = dialect.receive(frame)
    assert isinstance(meant, str)
    with pytest.raises(ClientFault) as caught:
        decode(meant)
    assert caught.value.code is ErrorCode.BAD_FRAME, "so the session counts it"
    ref, _ = reference(meant)
    counted = Error(code="bad_frame", fatal=True, retry=False, msg="?", ref=ref)
    (told,) = dialect.events(counted)
    assert told["error"]["message"].startswith("The event could not be read")
    assert told["error"]["event_id"] is None


def test_a_refused_event_over_the_rate_is_answered_by_the_rate() -> None:
    dialect = TranscriptionDialect({})
    dialect.receive("{")
    (told,) = dialect.events(Error(code="rate", fatal=False, retry=True, msg="Too many."))
    assert told["error"]["code"] == "rate"
    assert dialect.events(stats("refused 1")) == [], "it was answered"


def test_audio_that_the_gateway_has_ended_is_begun_anew() -> None:
    client = peer()
    client.send(APPEND, audio=PIECE)
    assert client.send(APPEND, audio=PIECE) == [b"\x01\x02" * 240]
    off = Error(code="audio_off", fatal=False, retry=False, msg="There is none.")
    assert [event["type"] for event in client.told(off)] == ["error"]
    assert client.told(off) == [], "once for frames in a row"
    assert isinstance(client.send(APPEND, audio=PIECE)[0], Audio)


@pytest.mark.parametrize("type", [COMMIT, CLEAR])
def test_an_error_about_the_end_of_audio_names_the_event_that_asked_for_it(type: str) -> None:
    client = peer()
    (end,) = client.send(type, event_id="mine")
    assert isinstance(end, AskStats)
    refused = Error(code="rate", fatal=False, retry=True, msg="Too many frames.", ref=end.ref)
    (told,) = client.told(refused)
    assert (told["error"]["event_id"], told["error"]["message"]) == ("mine", "Too many frames.")


def test_an_update_that_fails_does_not_end_audio_that_is_going_on() -> None:
    client = peer()
    begun, piece = client.send(APPEND, audio=PIECE)
    (asked,) = client.send("session.update", session=session())
    assert isinstance(begun, Audio) and isinstance(asked, AskStats)
    client.told(Error(code="busy", fatal=False, retry=True, msg="No.", ref=asked.ref))
    assert client.send(APPEND, audio=PIECE) == [piece]
    client.told(Error(code="busy", fatal=False, retry=True, msg="No.", ref=begun.ref))
    assert isinstance(client.send(APPEND, audio=PIECE)[0], Audio), "its begin was refused"


def test_events_are_numbered_and_requests_have_names_of_their_own() -> None:
    dialect = TranscriptionDialect({})
    fault = Error(code="bad_frame", fatal=False, retry=False, msg="No.", hint="Do this.")
    events = [*dialect.events(welcome()), *(dialect.events(fault)[0] for _ in range(2))]
    assert [event["event_id"] for event in events] == ["event_1", "event_2", "event_3"]
    assert events[-1]["error"]["message"] == "No. Do this."
    client = peer()
    refs = [client.send(COMMIT)[0].ref for _ in range(3)]  # type: ignore[union-attr]
    assert len(set(refs)) == 3
