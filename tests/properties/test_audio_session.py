"""Any sequence of frames, text and binary, with any recogniser: events or named errors."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.recognition.speech_timing import FRAME_BYTES
from gateway.errors import ErrorCode
from gateway.job import Recognised, Word
from gateway.limits import Limits
from gateway.protocol.audio import HeardSpeech
from gateway.protocol.codec import Codec
from gateway.protocol.messages import Cancelled, Failed, Final, Source
from gateway.protocol.notices import Error
from tests.support.heard import HandService, HandWorker
from tests.support.meeting import Meeting, only

LIMITS = Limits(inflight=3, audio_rate=2.0, audio_burst=2.0, queue=4)
TEXTS = ("hello there", "Guten Tag, 你好", "", "\u200b", "words " * 30, "مرحبا")
DATA = ("AAAA", "AAA=", "?")
IDS = ("a1-1", "a1-2", "x")

codecs = st.sampled_from(("pcm_s16le", "opus", "none", "mp3", ""))
messages: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("audio"), "codec": codecs},
        optional={
            "rate": st.sampled_from((16_000, 48_000, 1, 10**7)),
            "from": st.sampled_from(("en", "en,de", "auto", "tlh", "", ",", "en," * 200)),
            "t0": st.sampled_from((0.0, 1e9, -1.0)),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.just("chunk"), "data": st.sampled_from(("AAAA", "AAA=", "?"))}
    ),
    st.fixed_dictionaries(
        {"type": st.just("cancel"), "id": st.sampled_from(("a1-1", "a1-2", "x"))}
    ),
    st.fixed_dictionaries({"type": st.just("say"), "text": st.sampled_from(TEXTS)}),
    st.fixed_dictionaries({"type": st.sampled_from(("bye", "stats", "retract"))}),
)
steps = st.one_of(
    st.tuples(st.just("message"), messages),
    st.tuples(st.just("frame"), st.one_of(st.binary(max_size=50), st.just(bytes(16_000)))),
    st.tuples(st.just("voice"), st.integers(1, 60)),
    st.tuples(st.just("silence"), st.integers(1, 60)),
    st.tuples(st.just("answer"), st.sampled_from(TEXTS)),
    st.tuples(st.sampled_from(("fail", "retry", "translate", "drain")), st.none()),
)


def work(worker: HandWorker, step: str, value: Any) -> None:
    """Let the recogniser do something with one stream."""
    if worker.closed:
        return
    if step in ("voice", "silence"):
        probabilities = [float(step == "voice")] * value
        worker.stream.decoded(bytes(FRAME_BYTES * value), probabilities, worker.meeting.now)
    elif step == "answer" and worker.job is not None:
        worker.job = None
        words = (Word(f" {value}", 0.0, 0.3),) if value else ()
        worker.stream.answered(Recognised(words=words, lang="en"), worker.meeting.now)
    elif step == "fail" and worker.job is not None:
        worker.fail()
    elif step == "retry":
        worker.stream.retry(worker.meeting.now)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from((Codec.JSON, Codec.MSGPACK)), st.lists(steps, max_size=40))
def test_any_frames_lead_to_events_or_named_errors_and_every_utterance_ends(
    codec: Codec, tape: list[tuple[str, Any]]
) -> None:
    room = Meeting(limits=LIMITS)
    service = room.speech = HandService(room)
    peer = room.enter("de", codec=codec)
    events = []
    for step, value in tape:
        room.wait(0.1)
        if step == "message":
            if codec is Codec.MSGPACK and value["type"] == "chunk":
                value = {**value, "data": b"\x00\x01\x02"}
            events += peer.send(**value)
        elif step == "frame":
            events += peer.frame(value)
        elif step == "translate":
            room.finish_all()
        elif step == "drain":
            peer.session.drain()
        else:
            for worker in service.workers:
                work(worker, step, value)
        events += peer.events()
    assert {error.code for error in only(Error, events)} <= {code.value for code in ErrorCode}
    for heard in only(HeardSpeech, events):
        assert heard.text and heard.t0 <= heard.t1
    peer.close()
    room.finish_all()
    assert all(worker.closed for worker in service.workers)
    ended = [e.id for e in room.log if isinstance(e, Final | Failed) or isinstance(e, Cancelled)]
    assert {source.id for source in only(Source, room.log)} <= set(ended)
