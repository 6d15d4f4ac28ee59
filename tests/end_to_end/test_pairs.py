"""Every language pair over real connections: in two steps, and with engines that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.partials import PartialTiming
from gateway.core.streaming.stability import StabilityRules
from gateway.engines.base.engine import Engine
from gateway.engines.profiles import Profile
from gateway.engines.registry import build
from gateway.engines.scripted import ScriptedEngine
from gateway.engines.wrappers.pivot import PivotEngine
from gateway.engines.wrappers.route import EngineRoute
from gateway.engines.wrappers.routed import RoutedEngine
from gateway.engines.wrappers.supervised import Supervisor
from gateway.limits import Limits
from gateway.server.runtime import hub
from gateway.settings.catalogue import Settings
from tests.support.live import Live, running, until
from tests.support.talk import Talk, talk

EAGER = StreamingOptions(
    pace=PartialTiming(interval=0.0, words=1, first=1, step=1, repeats=1),
    stability=StabilityRules(hold=1, mask=1, agree=2),
)
"""Every partial is translated at once."""

GERMAN = "Guten Morgen zusammen, könnt ihr mich hören?"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def embedded(cache: Path) -> Engine:
    return build(Settings(cache_dir=str(cache), inter_threads=1))


async def finals(peer: Talk, count: int) -> dict[str, dict[str, Any]]:
    """Return the next finals by language."""
    found: dict[str, dict[str, Any]] = {}
    while len(found) < count:
        final = (await peer.until("final"))[-1]
        found[final["lang"]] = final
    return found


# --- the embedded model ------------------------------------------------------------------------


async def test_a_german_line_reaches_a_japanese_reader(cache: Path) -> None:
    async with running(embedded(cache)) as live, talk(live, "?from=de&to=ja") as peer:
        welcome = (await peer.until("welcome"))[-1]
        assert "impossible" not in welcome
        await peer.send(GERMAN)
        events = await peer.until("final")
        final = events[-1]
        assert final["flags"] == ["pivot:en"]
        assert "おはよう" in final["text"]
        deltas = [event for event in events if event["type"] == "delta"]
        assert (
            deltas
        )  # of a search they come whole; that they stream is in the tests of the wrapper
        assert "".join(delta["add"] for delta in deltas) == final["text"]
        assert final["ms"]["queue"] <= final["ms"]["first"] <= final["ms"]["total"]


async def test_with_from_auto_both_steps_begin_from_the_detected_language(cache: Path) -> None:
    async with running(embedded(cache)) as live, talk(live, "?from=auto&to=fr,en,de") as peer:
        await peer.send(GERMAN)
        found = await finals(peer, 3)
        assert found["fr"]["flags"] == ["pivot:en"] and "Bonjour" in found["fr"]["text"]
        assert "flags" not in found["en"]
        assert (found["de"]["by"], found["de"]["text"]) == ("same", GERMAN)


async def test_growing_german_is_shown_in_french_before_it_is_finished(cache: Path) -> None:
    async with running(embedded(cache), flow=EAGER) as live, talk(live, "?from=de&to=fr") as peer:
        await peer.until("welcome")
        # Of the first step, the last four words are left out: a shorter line shows nothing.
        line = GERMAN[:-1] + " und meinen Bildschirm sehen?"
        words = line.split()
        for n in range(2, len(words)):
            said = {"type": "say", "id": "u1", "text": " ".join(words[:n]), "final": False}
            await peer.send(said)
            await peer.until("ack")
        draft = (await peer.until("delta"))[-1]
        assert draft["draft"]
        await peer.send({"type": "say", "id": "u1", "text": line})
        final = (await peer.until("final"))[-1]
        assert final["flags"] == ["pivot:en"] and "Bonjour" in final["text"]


async def test_over_http_a_pair_in_two_steps_is_flagged(cache: Path) -> None:
    async with running(embedded(cache)) as live, httpx.AsyncClient(base_url=live.http) as client:
        ask = {"text": GERMAN, "source_lang": "de", "target_lang": "es"}
        answer = (await client.post("/v1/translate", json=ask)).json()
        assert answer["flags"] == ["pivot:en"] and answer["translation"]
        assert 0 < answer["p"] < 1
        listed = (await client.get("/v1/languages")).json()
        assert listed["pivot"] == "en"
        german = next(row for row in listed["languages"] if row["tag"] == "de")
        assert sorted(german["targets"]) == ["en", "es", "fr", "ja", "zh"]
        assert sorted(german["pivoted"]) == ["es", "fr", "ja", "zh"]
        rows = (await client.get("/languages")).json()
        assert all(len(row["targets"]) == 5 for row in rows)


# --- scripted engines --------------------------------------------------------------------------


class Bridge(ScriptedEngine):
    """An engine with some pairs only."""

    def __init__(self, name: str, *pairs: tuple[str, str], **options: Any) -> None:
        super().__init__(**options)
        langs = tuple(dict.fromkeys(tag for pair in pairs for tag in pair))
        self._profile = Profile(name=name, kind="raw", languages=langs, pairs=pairs)

    @property
    def name(self) -> str:
        return self._profile.name


GERMAN_ENGLISH = (("de", "en"), ("en", "de"))
ENGLISH_FRENCH = (("en", "fr"), ("fr", "en"))
GERMAN_FRENCH = (("de", "fr"),)


class Workshop:
    """A builder of engines of one kind. A replacement is built when the test says so."""

    def __init__(self, name: str, *pairs: tuple[str, str]) -> None:
        self.name = name
        self.pairs = pairs
        self.capacity = 16
        self.built: list[Bridge] = []
        self.mend = asyncio.Event()

    def __call__(self) -> Engine:
        self.built.append(Bridge(self.name, *self.pairs, capacity=self.capacity))
        return self.built[-1]

    async def sleep(self, seconds: float) -> None:
        if seconds >= 1.0:  # polls never come: a death is noticed by the job that it ends
            await asyncio.Event().wait()
        await self.mend.wait()


@asynccontextmanager
async def meeting(
    *workshops: Workshop, limits: Limits | None = None
) -> AsyncIterator[tuple[Live, RoutedEngine]]:
    routes, supervisors = [], []
    for workshop in workshops:
        supervisor = Supervisor(workshop, insist=True, sleep=workshop.sleep, chance=lambda: 0.5)
        supervisors.append(supervisor)
        routes.append(EngineRoute(workshop.name, supervisor))
    routed = RoutedEngine(routes)
    for supervisor in supervisors:
        supervisor.changed = routed.update
    async with running(PivotEngine(routed, "en"), limits) as live:
        yield live, routed


async def said(peer: Talk, text: str = "hallo") -> dict[str, Any]:
    """Say a line, and return its final or failure."""
    await peer.send(text)
    while True:
        event = await peer.next()
        if event["type"] in ("final", "failed"):
            return event


async def test_pairs_of_a_dead_engine_go_through_the_pivot_until_it_is_back() -> None:
    direct = Workshop("direct", *GERMAN_FRENCH)
    others = (Workshop("german", *GERMAN_ENGLISH), Workshop("french", *ENGLISH_FRENCH))
    async with meeting(direct, *others) as (live, routed), talk(live, "?from=de&to=fr") as peer:
        assert (await said(peer))["text"] == "[fr] hallo"
        direct.built[0].hold()
        await peer.send("hallo")
        await until(lambda: direct.built[0].unfinished == 1)
        direct.built[0].die()
        degraded = (await peer.until("degraded"))[-1]
        assert degraded["engine"] == "german, french"
        # Its own job failed, because no other engine has the pair in one step.
        assert (await said(peer))["flags"] == ["engine:german", "pivot:en", "engine:french"]
        async with httpx.AsyncClient(base_url=live.http) as client:
            ready = await client.get("/readyz")
            assert ready.status_code == 200
            assert ready.json()["engines"] == {
                "direct": "dead",
                "german": "ready",
                "french": "ready",
            }
            text = (await client.get("/metrics")).text
            assert 'gateway_engine_health{engine="direct",state="dead"} 1.0' in text
            assert 'gateway_engine_capacity{engine="french"} 16.0' in text
            assert 'gateway_engine_queued{engine="french"} 0.0' in text
        direct.mend.set()
        await until(lambda: routed.substitute is None)
        assert "engine" not in (await peer.until("degraded"))[-1]
        assert (await said(peer))["flags"] == ["engine:direct"]


async def test_a_job_of_a_dying_engine_is_made_by_the_other_engine_for_its_pair() -> None:
    twins = (Workshop("one", *GERMAN_ENGLISH), Workshop("two", *GERMAN_ENGLISH))
    async with meeting(*twins) as (live, _), talk(live, "?from=de&to=en") as peer:
        await peer.until("welcome")
        engines = [twin.built[0] for twin in twins]
        for engine in engines:
            engine.hold()
        await peer.send("eins zwei")
        await until(lambda: any(engine.unfinished for engine in engines))
        # The name of the room decides which of them has its jobs.
        other, dying = sorted(engines, key=lambda engine: engine.unfinished)
        await dying.step()
        other.release()
        dying.die()
        final = (await peer.until("final"))[-1]
        assert final["text"] == "[en] eins zwei"


async def test_a_pair_that_only_a_dead_engine_has_fails_visibly_and_works_again_later() -> None:
    german, french = Workshop("german", *GERMAN_ENGLISH), Workshop("french", *ENGLISH_FRENCH)
    async with meeting(german, french) as (live, routed), talk(live, "?from=de&to=fr") as peer:
        assert (await said(peer))["flags"] == ["engine:german", "pivot:en", "engine:french"]
        french.built[0].hold()
        await peer.send("hallo")
        await until(lambda: french.built[0].unfinished == 1)  # in the second step
        french.built[0].die()
        assert (await peer.until("failed"))[-1]["code"] == "engine_unavailable"
        assert (await said(peer))["code"] == "engine_unavailable"
        async with talk(live, "?from=de&to=en") as other:
            assert (await said(other))["text"] == "[en] hallo"
        french.mend.set()
        await until(lambda: len(french.built) == 2 and routed.serves("en", "fr"))
        assert (await said(peer))["text"] == "[fr] [en] hallo"


async def test_a_full_engine_holds_up_no_caption_of_another_pair() -> None:
    slow, quick = Workshop("slow", *GERMAN_ENGLISH), Workshop("quick", *ENGLISH_FRENCH)
    limits = Limits(inflight=100, queue=4)
    async with (
        meeting(slow, quick, limits=limits) as (live, _),
        talk(live, "?from=de&to=en") as flood,
        talk(live, "?from=en&to=fr") as peer,
    ):
        await flood.until("welcome")
        slow.built[0].hold()
        for n in range(slow.built[0].capacity + limits.queue):
            await flood.send({"type": "say", "id": f"f{n}", "text": "viel"})
            await flood.until("ack")
        assert live.hub.scheduler.queued == limits.queue
        await flood.send({"type": "say", "id": "more", "text": "viel"})
        assert (await flood.until("error"))[-1]["code"] == "busy"
        assert (await said(peer, "hello"))["text"] == "[fr] hello"
        slow.built[0].release()
        for _ in range(slow.built[0].capacity + limits.queue):
            await flood.until("final")


async def test_the_slot_of_a_first_step_is_free_for_others_during_the_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "HOUSEKEEPING_S", 1e6)  # which looks for waiting jobs as well
    german, french = Workshop("german", *GERMAN_ENGLISH), Workshop("french", *ENGLISH_FRENCH)
    german.capacity = 1
    async with (
        meeting(german, french) as (live, _),
        talk(live, "?from=de&to=fr") as peer,
        talk(live, "?from=de&to=en") as other,
    ):
        await peer.until("welcome")
        await other.until("welcome")
        german.built[0].hold()
        french.built[0].hold()
        await peer.send("eins")
        await until(lambda: german.built[0].unfinished == 1)
        await other.send("zwei")
        await until(lambda: live.hub.scheduler.queued == 1)
        german.built[0].release()
        assert (await other.until("final"))[-1]["text"] == "[en] zwei"
        assert french.built[0].unfinished == 1
        french.built[0].release()
        assert (await peer.until("final"))[-1]["text"] == "[fr] [en] eins"


@pytest.mark.parametrize("step", ["first", "second"])
async def test_a_cancel_stops_whichever_step_runs(step: str) -> None:
    workshops = (Workshop("german", *GERMAN_ENGLISH), Workshop("french", *ENGLISH_FRENCH))
    async with meeting(*workshops) as (live, routed), talk(live, "?from=de&to=fr") as peer:
        await peer.until("welcome")
        engine = workshops[step == "second"].built[0]
        engine.hold()
        await peer.send({"type": "say", "id": "u1", "text": "hallo"})
        await until(lambda: engine.unfinished == 1)
        await peer.send({"type": "cancel", "id": "u1"})
        cancelled = (await peer.until("cancelled"))[-1]
        assert cancelled["was"] == "running"
        await until(lambda: routed.unfinished == 0)
        assert len(engine.aborted) == 1
        engine.release()
        assert (await said(peer))["type"] == "final"


async def test_the_time_limit_of_a_job_counts_both_steps() -> None:
    workshops = (Workshop("german", *GERMAN_ENGLISH), Workshop("french", *ENGLISH_FRENCH))
    async with (
        meeting(*workshops, limits=Limits(job_s=0.3)) as (live, routed),
        talk(live, "?from=de&to=fr") as peer,
    ):
        await peer.until("welcome")
        workshops[1].built[0].hold()  # the first step ends, the second does not
        assert (await said(peer))["code"] == "timeout"
        await until(lambda: routed.unfinished == 0)


async def test_readers_of_english_and_of_others_share_one_translation_into_english() -> None:
    german = Workshop("german", *GERMAN_ENGLISH)
    french = Workshop("french", *ENGLISH_FRENCH)
    async with meeting(german, french) as (live, _), talk(live, "?from=de&to=fr,en") as peer:
        await peer.send("hallo")
        found = await finals(peer, 2)
        assert (found["en"]["text"], found["fr"]["text"]) == ("[en] hallo", "[fr] [en] hallo")
        assert len(german.built[0].started) == 1


async def test_a_corrected_original_is_translated_again_in_both_steps() -> None:
    workshops = (Workshop("german", *GERMAN_ENGLISH), Workshop("french", *ENGLISH_FRENCH))
    async with meeting(*workshops) as (live, _), talk(live, "?from=de&to=fr&role=moderate") as peer:
        await peer.send({"type": "say", "id": "u1", "text": "hallo"})
        await peer.until("final")
        await peer.send({"type": "edit", "id": "u1", "lang": "de", "text": "tschüss"})
        edited: Sequence[dict[str, Any]] = await peer.until("edited")
        while edited[-1]["lang"] != "fr":
            edited = await peer.until("edited")
        assert edited[-1]["text"] == "[fr] [en] tschüss"


async def test_impossible_pairs_are_told_in_the_welcome_in_the_lists_and_in_the_error() -> None:
    workshops = (Workshop("german", *GERMAN_ENGLISH), Workshop("italian", ("fr", "it")))
    async with (
        meeting(*workshops) as (live, _),
        talk(live, "?from=de&to=it") as peer,
        httpx.AsyncClient(base_url=live.http) as client,
    ):
        welcome = (await peer.until("welcome"))[-1]
        assert welcome["impossible"] == {"de": ["it"], "en": ["it"], "fr": ["en", "de"]}
        assert (await said(peer))["code"] == "pair_unsupported"
        await peer.send({"type": "want", "langs": ["tlh"]})
        error = (await peer.until("error"))[-1]
        assert (error["code"], error["hint"]) == ("lang_unsupported", "It has: en, de, it.")
        rows = (await client.get("/v1/languages")).json()["languages"]
        assert {row["tag"]: row["targets"] for row in rows} == {
            "de": ["en"],
            "en": ["de"],
            "fr": ["it"],
        }
        ask = {"text": "hallo", "source_lang": "de", "target_lang": "it"}
        refused = await client.post("/v1/translate", json=ask)
        assert refused.status_code == 400
        assert refused.json()["code"] == "pair_unsupported"
        assert refused.json()["hint"] == "From `de` it translates into en."
