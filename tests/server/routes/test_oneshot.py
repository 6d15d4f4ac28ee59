"""The growing translation of one text, in the order of the text."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest

from gateway.errors import EngineFault, ErrorCode
from gateway.protocol.fields import EventStruct
from gateway.protocol.messages import Delta, Final, Timing
from gateway.server.routes.oneshot import OneShot, OneShotRequest
from tests.support.live import running

TEXT = "It rains. We stay.\nTomorrow we go."


def delta(id: str, add: str, *, reset: bool = False) -> Delta:
    return Delta(id=id, rev=1, lang="de", add=add, reset=reset, n=0)


def final(id: str, text: str) -> Final:
    timing = Timing(queue=0, first=0, total=0)
    return Final(seq=1, id=id, rev=1, ord=1, lang="de", text=text, by="mt", ms=timing)


async def grown(events: Sequence[EventStruct], target: str = "de") -> list[str]:
    """Return what a shot yields if the gateway reports these events."""

    async def scripted() -> AsyncGenerator[EventStruct]:
        for event in events:
            yield event

    async with running() as live:
        shot = OneShot(live.hub, OneShotRequest(TEXT, "en", target, live=True))
        try:
            shot.events = scripted  # type: ignore[method-assign,assignment]
            return [text async for text in shot.text()]
        finally:
            shot.close()


async def test_the_text_grows_in_order_whatever_piece_is_ready_first() -> None:
    events = [
        delta("2", "Wir"),
        delta("1", "Es"),
        final("3", "Morgen gehen wir."),
        delta("1", " regnet."),
        final("1", "Es regnet."),
        final("2", "Wir bleiben."),
    ]
    texts = await grown(events)
    assert texts == ["Es", " regnet.", " Wir", " bleiben.", "\nMorgen gehen wir."]


async def test_pieces_in_a_script_without_spaces_have_none_between_them() -> None:
    events = [final("1", "雨です。"), final("2", "残ります。"), final("3", "明日行きます。")]
    assert "".join(await grown(events, "ja")) == "雨です。残ります。\n明日行きます。"


async def test_a_second_attempt_that_begins_as_the_first_one_did_goes_on() -> None:
    again = (delta("1", "Es"), delta("1", "", reset=True), delta("1", "Es regnet."))
    ends = (final("1", "Es regnet."), final("2", "B."), final("3", "C."))
    assert "".join(await grown([*again, *ends])) == "Es regnet. B.\nC."


async def test_text_that_was_sent_and_is_wrong_ends_the_answer() -> None:
    with pytest.raises(EngineFault) as fault:
        await grown([delta("1", "Es"), final("1", "Regen fällt.")])
    assert fault.value.code is ErrorCode.REJECTED
