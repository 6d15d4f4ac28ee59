"""Properties of counted memory: never less than the memory a log takes, in any script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import getsizeof
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.history.event_log import Durable, EventLog
from gateway.limits import Limits, memory
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import (
    Cancelled,
    Edited,
    Failed,
    Final,
    Retracted,
    Settings,
    Source,
    Timing,
)

SCRIPTS = {
    "ASCII": (0x20, 0x7E),
    "Latin-1": (0xA1, 0xFF),
    "Greek": (0x391, 0x3C9),
    "Arabic": (0x621, 0x64A),
    "CJK": (0x4E00, 0x9FA5),
    "emoji": (0x1F300, 0x1F64F),
}
LOG_BYTES = 4_096
"""Most memory of a log without any events: its dict, and the blocks of its deques."""


def characters(script: str) -> st.SearchStrategy[str]:
    first, last = SCRIPTS[script]
    return st.characters(min_codepoint=first, max_codepoint=last)


any_character = st.one_of(*map(characters, SCRIPTS))


def text(least: int = 0, most: int = 60) -> st.SearchStrategy[str]:
    """Texts of one script, and texts that mix them. Every one is a new object."""
    one = (st.text(characters(script), min_size=least, max_size=most) for script in SCRIPTS)
    return st.one_of(*one, st.text(any_character, min_size=least, max_size=most))


maybe = st.none() | text()
number = st.integers(1, 2**53 - 1)
seconds = st.none() | st.floats(0, 1e9)
common = {"rev": number, "ord": number, "id": text(1, 80), "lang": text(1, 64)}
timing = st.builds(Timing, queue=number, first=number, total=number)
flags = st.lists(text(1, 20), max_size=3).map(tuple)
by_tag = st.dictionaries(text(1, 10), text(1), min_size=1, max_size=4)
terms = st.none() | st.dictionaries(text(1), text(1) | by_tag, max_size=8)
events: st.SearchStrategy[Durable] = st.one_of(
    st.builds(Source, seq=st.just(0), text=text(), speaker=maybe, t0=seconds, t1=seconds, **common),
    st.builds(
        Final,
        seq=st.just(0),
        text=text(),
        by=st.just("mt"),
        ms=timing,
        flags=flags,
        ref=maybe,
        **common,
    ),
    st.builds(Failed, seq=st.just(0), code=st.just("busy"), retry=st.booleans(), **common),
    st.builds(
        Cancelled, seq=st.just(0), id=common["id"], rev=number, was=st.just("done"), ref=maybe
    ),
    st.builds(Edited, seq=st.just(0), text=text(), by=st.just("human"), ref=maybe, **common),
    st.builds(Retracted, seq=st.just(0), id=common["id"], ord=number, ref=maybe),
    st.builds(
        Settings,
        seq=st.just(0),
        version=number,
        context=maybe,
        glossary=terms,
        style=maybe,
        speaker=maybe,
        session=maybe,
        ref=maybe,
    ),
)


def deep(thing: Any, seen: set[int]) -> int:
    """Return the memory of an object and of all that only it refers to, as Python counts it."""
    if thing is None or isinstance(thing, bool) or id(thing) in seen:
        return 0
    seen.add(id(thing))
    parts: Iterable[Any] = ()
    if isinstance(thing, Mapping):
        parts = (*thing, *thing.values())
    elif isinstance(thing, msgspec.Struct):
        parts = msgspec.structs.astuple(thing)
    elif isinstance(thing, Iterable) and not isinstance(thing, str):
        parts = thing
    return getsizeof(thing) + sum(deep(part, seen) for part in parts)


def taken(log: EventLog) -> int:
    """Return the memory of a log's events."""
    seen: set[int] = set()
    return sum(deep(part, seen) for part in (log._entries, log._costs, log._seqs))


def encode(events: Iterable[Durable]) -> None:
    """Write events for readers of both codecs, which leaves the UTF-8 of their texts in memory."""
    for event in events:
        for codec in (Codec.JSON, Codec.MSGPACK):
            Envelope(event).wire(codec)


def append(log: EventLog, event: Durable) -> None:
    numbered = msgspec.structs.replace(event, seq=log.seq + 1)
    log.append(numbered, 0.5 + log.seq)


@given(text(0, 200))
def test_a_text_counts_as_much_before_it_is_encoded_as_after(said: str) -> None:
    counted = memory(said)
    msgspec.json.encode(said)
    assert counted == memory(said)
    # One character more, of at most four bytes, stands for the end of the UTF-8.
    assert getsizeof(said) <= counted <= getsizeof(said) + 4


@given(st.lists(events, min_size=1, max_size=80))
def test_a_log_takes_no_more_memory_than_it_counts_and_no_less_than_a_third(
    said: list[Durable],
) -> None:
    log = EventLog("e", Limits(log_bytes=10**9))
    for event in said:
        append(log, event)
    encode(log.since(0) or ())
    truth = taken(log)
    assert truth <= log.bytes + LOG_BYTES
    assert log.bytes <= 3 * truth


@pytest.mark.parametrize("script", SCRIPTS)
def test_captions_are_counted_at_no_more_than_one_and_a_half_times_their_memory(
    script: str,
) -> None:
    log = EventLog("e", Limits())
    for n in range(1_000, 1_500):
        ms = Timing(queue=n, first=n + 1, total=n + 2)
        said = chr(SCRIPTS[script][1]) * 80 + str(n)
        append(log, Final(seq=0, id=f"u{n}", rev=1, ord=n, lang="de", text=said, by="mt", ms=ms))
    encode(log.since(0) or ())
    truth = taken(log)
    assert truth <= log.bytes <= 1.5 * truth


@given(st.lists(events, min_size=1, max_size=40), st.integers(2_000, 12_000), st.data())
def test_the_count_does_not_drift_whenever_events_are_encoded_erased_and_dropped(
    said: list[Durable], bound: int, data: st.DataObject
) -> None:
    log = EventLog("e", Limits(log_bytes=bound))
    for event in said:
        append(log, event)
        match data.draw(st.integers(0, 3)):
            case 0:
                encode(log.since(log.oldest - 1) or ())
            case 1 if isinstance(event, Source | Final | Edited):
                log.erase(event.ord)
            case 2:
                log.shed(data.draw(st.integers(0, bound)))
        assert log.bytes == sum(log._costs) <= bound
        assert len(log._costs) == len(log)
    again = EventLog("e", Limits(log_bytes=bound))
    again.restore(log.entries(), log.authors)
    assert again.bytes == log.bytes
    encode(log.since(log.oldest - 1) or ())
    assert taken(log) <= log.bytes + LOG_BYTES
    log.shed(log.bytes)
    assert (log.bytes, len(log)) == (0, 0)
