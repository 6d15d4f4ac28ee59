"""However late a reader is, it ends with the text of a prompt one."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.delivery import outbox as module
from gateway.core.delivery.outbox import Outbox
from gateway.limits import Limits
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import (
    Ack,
    Cancelled,
    Delta,
    Failed,
    Final,
    Line,
    ServerMessage,
    Snapshot,
    Timing,
)
from tests.support.meeting import NOW, read
from tests.support.screen import Screen

PIECES = ("a", " bc", "", "\U0001f600")


def script(tape: Sequence[int]) -> list[ServerMessage]:
    """Return events that a room might send of two utterances in two languages, in any order."""
    source = iter(tape)
    stable: dict[tuple[str, str], str] = {}
    ended: set[tuple[str, str]] = set()
    said: list[ServerMessage] = []
    for n in source:
        key = id, lang = ("u1", "u2")[n % 2], ("de", "fr")[n // 2 % 2]
        what = n // 4 % 16
        if what == 15:
            said.append(Ack(id=id, rev=1, ord=1))
        elif key in ended:
            continue
        elif what == 14:
            text = stable.get(key, "")
            ended.add(key)
            said.append(
                Final(
                    seq=len(said),
                    id=id,
                    rev=1,
                    ord=1,
                    lang=lang,
                    text=text,
                    by="mt",
                    ms=Timing(queue=0, first=0, total=0),
                )
            )
        elif what == 13:
            ended.add(key)
            said.append(
                Failed(seq=len(said), id=id, rev=1, ord=1, lang=lang, code="busy", retry=True)
            )
        elif what == 12:
            ended.add(key)
            said.append(Cancelled(seq=len(said), id=id, rev=0, lang=lang, was="running"))
        elif what == 11:
            line = Line(lang=lang, state="running", text=stable.get(key, ""))
            said.append(
                Snapshot(id=id, rev=1, ord=1, lang="en", text="", final=True, lines=(line,))
            )
        else:
            reset = what == 10
            add = PIECES[n // 64 % 4]
            stable[key] = ("" if reset else stable.get(key, "")) + add
            draft = (None, "", "d", "dd")[what % 4]
            said.append(
                Delta(
                    id=id,
                    rev=1,
                    lang=lang,
                    add=add,
                    draft=draft,
                    reset=reset,
                    n=len(stable[key]),
                )
            )
    return said


tapes = st.lists(st.integers(0, 255), max_size=80)


@given(tapes, st.lists(st.integers(1, 20), max_size=20), st.sampled_from([0, 200, 4096]))
def test_merged_or_not_the_same_text_is_shown(tape: list[int], takes: list[int], late: int) -> None:
    prompt, tardy = Screen(), Screen()
    outbox = Outbox(Codec.JSON, Limits())
    pauses = iter(takes)
    pause = next(pauses, 1000)
    try:
        module.LATE_BYTES, kept = late, module.LATE_BYTES
        for event in script(tape):
            prompt.show(event)
            outbox.push(Envelope(event), NOW)
            pause -= 1
            if pause == 0:
                pause = next(pauses, 1000)
                for frame in outbox.take():
                    tardy.show(read(frame))
                look = {k: (c.text, c.end) for k, c in tardy.captions.items() if c.end is None}
                assert look == {
                    k: (c.text, c.end) for k, c in prompt.captions.items() if c.end is None
                }
    finally:
        module.LATE_BYTES = kept
    for frame in outbox.take():
        tardy.show(read(frame))
    for key, caption in prompt.captions.items():
        other = tardy.captions[key]
        assert other.end == caption.end
        if caption.end is None or isinstance(caption.end, Final):
            assert (other.stable, other.draft) == (caption.stable, caption.draft)


@given(tapes, st.lists(st.integers(1, 20), max_size=20), st.integers(1_500, 12_000))
def test_a_reader_that_is_dropped_deltas_sees_no_hole_and_the_same_ends(
    tape: list[int], takes: list[int], bound: int
) -> None:
    prompt, tardy = Screen(), Screen()
    outbox = Outbox(Codec.JSON, Limits(outbox_bytes=bound))
    pauses = iter(takes)
    pause = next(pauses, 1000)
    for event in script(tape):
        prompt.show(event)
        outbox.push(Envelope(event), NOW)
        pause -= 1
        if pause == 0:
            pause = next(pauses, 1000)
            for frame in outbox.take(bound // 8):
                tardy.show(read(frame))  # checks what a delta is added to
    if outbox.closing is not None:
        return
    for frame in outbox.take():
        tardy.show(read(frame))
    for key, caption in prompt.captions.items():
        if caption.end is not None:
            assert tardy.captions[key].end == caption.end
            if isinstance(caption.end, Final):
                assert tardy.captions[key].stable == caption.stable


@given(tapes, st.integers(1_000, 20_000), st.lists(st.integers(1, 20), max_size=20))
def test_the_bytes_waiting_are_those_of_the_frames_and_never_over_the_bound(
    tape: list[int], bound: int, takes: list[int]
) -> None:
    outbox = Outbox(Codec.JSON, Limits(outbox_bytes=bound))
    pauses = iter(takes)
    pause = next(pauses, 1000)
    for event in script(tape):
        outbox.push(Envelope(event), NOW)
        pause -= 1
        if pause == 0:
            pause = next(pauses, 1000)
            outbox.take(bound // 8)
        assert outbox.bytes <= bound
        assert outbox.bytes == sum(size for _, _, size, _ in outbox._queue.values())
        waiting = {
            (slot, delta.id, delta.lang)
            for slot, (_, delta, _, _) in outbox._queue.items()
            if delta is not None
        }
        assert {(slot, *key) for key, slot in outbox._replaceable.items()} <= waiting
