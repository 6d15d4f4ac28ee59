"""The texts of one request: the order of their pieces, and what bounds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from itertools import groupby

import pytest

from gateway.core.session.session import Session
from gateway.engines.base.engine import Sink
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import EngineFault, ErrorCode
from gateway.job import Chunk, Job
from gateway.limits import Limits
from gateway.protocol.fields import EventStruct
from gateway.protocol.messages import ClientMessage, Delta, Final, Timing
from gateway.server.routes.oneshot import PIECES, OneShot, OneShotRequest, read
from tests.support.live import browse, running, until

TEXT = "It rains. We stay.\nTomorrow we go."


def delta(id: str, add: str, *, reset: bool = False) -> Delta:
    return Delta(id=id, rev=1, lang="de", add=add, reset=reset, n=0)


def final(id: str, text: str) -> Final:
    timing = Timing(queue=0, first=0, total=0)
    return Final(seq=1, id=id, rev=1, ord=1, lang="de", text=text, by="mt", ms=timing)


async def grown(events: Sequence[EventStruct], target: str = "de") -> list[str]:
    """Return the results of a shot if the gateway reports these events."""

    async def scripted() -> AsyncGenerator[EventStruct]:
        for event in events:
            yield event

    async with running() as live:
        asked = OneShotRequest((TEXT,), "en", target, live=True)
        shot = OneShot(live.hub, asked, await read(live.hub, asked))
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


def lines(count: int) -> str:
    return "\n".join(["line"] * count)


@pytest.mark.parametrize("target", ["de", "en"])
async def test_the_pieces_of_one_request_are_not_limited_as_frames_of_a_client(
    target: str,
) -> None:
    limits = Limits(rate=0.001, burst=1)  # a second frame would wait for 1000 s
    async with browse(limits=limits) as (client, _):
        body = {"text": lines(1_600), "source_lang": "en", "target_lang": target}
        answer = await client.post("/v1/translate", json=body)
        assert answer.status_code == 200
        assert answer.json()["translation"].count("line") == 1_600


async def test_a_list_has_no_more_in_flight_than_one_socket_may_have() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with browse(engine, Limits(inflight=4)) as (client, live):
        body = {"text": [lines(3)] * 50, "source_lang": "EN", "target_lang": "DE"}
        asked = asyncio.create_task(client.post("/v2/translate", json=body))
        await until(lambda: live.hub.scheduler.running + live.hub.scheduler.queued == 4)
        for _ in range(50):
            await asyncio.sleep(0)
        assert live.hub.scheduler.running + live.hub.scheduler.queued == 4
        assert len(live.hub.sessions) == 2, "the texts after them have no session yet"
        engine.release()
        answer = await asked
        texts = [one["text"] for one in answer.json()["translations"]]
        assert texts == ["\n".join(["[de] line"] * 3)] * 50
        assert not live.hub.sessions


async def test_a_list_is_translated_although_the_queue_is_shorter_than_it() -> None:
    async with browse(limits=Limits(queue=16)) as (client, _):
        body = {"text": [lines(10)] * 50, "source_lang": "EN", "target_lang": "DE"}
        assert (await client.post("/v2/translate", json=body)).status_code == 200


async def test_a_request_of_too_many_lines_is_refused_before_it_has_a_session() -> None:
    async with browse() as (client, live):
        body = {"text": "a\n" * (PIECES + 1), "source_lang": "en", "target_lang": "de"}
        answer = await client.post("/v1/translate", json=body)
        assert answer.status_code == 413
        assert (
            answer.json()["error"] == "The request has 2001 sentences and lines; 2000 are allowed."
        )
        assert not live.hub.sessions


async def test_the_lines_of_two_requests_are_said_in_turns() -> None:
    async with running() as live:
        said: list[str] = []
        perform = live.hub.perform

        def noted(session: Session, message: ClientMessage) -> None:
            said.append(session.id)
            perform(session, message)

        live.hub.perform = noted  # type: ignore[method-assign]
        asked = OneShotRequest((lines(100),), "en", "en")
        shots = [OneShot(live.hub, asked, await read(live.hub, asked)) for _ in range(2)]
        await asyncio.gather(*(shot.finals() for shot in shots))
        turns = [session for session, _ in groupby(said)]
        assert turns == [shot.session for shot in shots] * 5


async def test_a_text_that_only_fills_a_pause_has_an_empty_translation() -> None:
    engine = ScriptedEngine(script={("um", "de"): []})
    async with browse(engine=engine) as (client, _):
        body = {"text": "um\nhello", "source_lang": "en", "target_lang": "de"}
        answer = await client.post("/v1/translate", json=body)
        assert (answer.status_code, answer.json()["translation"]) == (200, "[de] hello")
        answer = await client.post("/v1/translate", json=body | {"text": "um"})
        assert (answer.status_code, answer.json()["translation"]) == (200, "")


async def test_the_answer_is_right_with_the_product_of_the_probabilities_of_its_sentences() -> None:
    class Doubtful(ScriptedEngine):
        def submit(self, job: Job, sink: Sink) -> None:
            loop = asyncio.get_running_loop()
            loop.call_soon(sink.chunk, Chunk(f"[{job.target}] {job.text}", p=0.5))
            loop.call_soon(sink.end, None)

    ask = {"text": TEXT, "source_lang": "en", "target_lang": "de"}
    async with browse(Doubtful()) as (client, _):
        assert (await client.post("/v1/translate", json=ask)).json()["p"] == 0.12
    async with browse() as (client, _):
        assert "p" not in (await client.post("/v1/translate", json=ask)).json()
