"""Replays on a real gateway."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from caption_tools.replay import play
from caption_tools.replay.analysis.measure import ReaderRecord, figures
from caption_tools.replay.analysis.screen import ScreenRecorder
from caption_tools.replay.meeting.script import RecogniserUpdate, ScriptUtterance
from caption_tools.replay.play import Player, load, work
from gateway.cli.terminal import Screen
from gateway.client import ConnectionLost, Refused
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.errors import EngineFault
from gateway.limits import Limits
from tests.support.live import Live, running, until

PACE = 0.02
"""Seconds between updates: the tests wait for nothing but what they say."""


def meeting(*texts: str, speaker: str | None = None, lang: str = "en") -> list[ScriptUtterance]:
    """Return utterances that grow word by word, one after the other."""
    said = []
    at = 0.0
    for number, text in enumerate(texts, 1):
        begin = at
        updates = []
        words = text.lower().split()
        for count in range(1, len(words) + 1):
            at += PACE
            updates.append(RecogniserUpdate(at, " ".join(words[:count])))
        at += PACE
        said.append(
            ScriptUtterance(
                id=f"{speaker}{number}",
                lang=lang,
                text=text,
                t0=begin,
                t1=at,
                updates=tuple(updates),
                speaker=speaker,
            )
        )
    return said


def player(live: Live, said: list[ScriptUtterance], **options: object) -> Player:
    given: dict[str, Any] = {"to": ("de", "fr"), "views": ("live", "stable"), **options}
    return Player(live.ws, said, **given)


def finals(readings: list[ReaderRecord]) -> list[str]:
    return [one.final.text if one.final else "" for one in readings]


async def test_every_reader_sees_the_captions_of_every_speaker() -> None:
    async with running() as live:
        said = meeting("One two three.", "Four.", speaker="Anna")
        said += meeting("Five six.", speaker="Ben")
        replay = player(live, sorted(said, key=lambda one: one.t0))
        await replay.play()
        assert (replay.whole, replay.refused, replay.engine) == (True, 0, "scripted")
        for lang in ("de", "fr"):
            for view in replay.views:
                readings = replay.readings(lang, view)
                assert sorted(finals(readings)) == sorted(
                    f"[{lang}] {text}" for text in ("One two three.", "Four.", "Five six.")
                )
                assert figures(readings, lang).lost == 0
        assert not live.hub.sessions


async def test_utterances_have_the_times_at_which_they_were_sent() -> None:
    async with running() as live:
        said = meeting("One two three.")
        replay = player(live, said)
        await replay.play()
        (reading, *_) = replay.readings("de", "live")
        assert [one.text for one in reading.said.updates] == [
            "one",
            "one two",
            "one two three.",
        ]
        times = [one.at for one in reading.said.updates]
        assert all(at >= one.at for at, one in zip(times, said[0].updates, strict=True))
        assert times[-1] <= reading.said.t1 <= reading.shown[-1].at <= replay.seconds


async def test_captions_of_others_in_the_room_are_not_measured() -> None:
    async with running() as live:
        first = player(live, meeting("One two."), room="demo")
        second = player(live, meeting("Three."), room="demo")
        await asyncio.gather(first.play(), second.play())
        assert finals(first.readings("de", "live")) == ["[de] One two."]
        assert finals(second.readings("de", "live")) == ["[de] Three."]


async def test_a_caption_that_fails_is_counted() -> None:
    fault = failing(EngineFault("It broke."), times=1000, when=lambda job: job.target == "fr")
    engine = ScriptedEngine(fault=fault)
    async with running(engine) as live:
        replay = player(live, meeting("One."))
        await replay.play()
        found = figures(replay.readings("fr", "live"), "fr")
        assert (found.captions, found.failed, found.lost) == (0, 1, 0)
        assert figures(replay.readings("de", "live"), "de").captions == 1


async def test_a_refused_text_is_counted_and_shown() -> None:
    async with running(limits=Limits(text=9)) as live:
        out = io.StringIO()
        replay = player(live, meeting("One.", "Too long for it."), screen=Screen(out))
        await replay.play()
        assert finals(replay.readings("de", "live")) == ["[de] One."]
        assert replay.refused > 1
        assert "! " in out.getvalue()


async def test_without_a_screen_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    async with running(limits=Limits(text=9)) as live:
        await player(live, meeting("One.", "Too long for it.")).play()
    assert capsys.readouterr().out == ""


async def test_an_internal_error_is_not_reported_as_a_fault_of_the_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(ScreenRecorder):
        def note(self, event: object, at: float) -> None:
            raise ZeroDivisionError

    monkeypatch.setattr(play, "ScreenRecorder", Broken)

    async with running() as live:
        with pytest.raises(ExceptionGroup) as caught:
            await player(live, meeting("One.")).play()
        assert caught.value.subgroup(ZeroDivisionError) is not None


async def test_a_final_text_is_sent_until_it_is_accepted() -> None:
    engine = ScriptedEngine()
    async with running(engine, Limits(inflight=1)) as live:
        engine.hold()
        said = [replace(one, updates=()) for one in meeting("One.", "Two.")]
        replay = player(live, said, to=("de",), views=("final",))
        playing = asyncio.create_task(replay.play())
        await until(lambda: any(one.errors for one in live.hub.sessions.values()))
        engine.release()
        await playing
        assert finals(replay.readings("de", "final")) == ["[de] One.", "[de] Two."]


async def test_a_cancelled_replay_has_the_captions_that_had_ended() -> None:
    engine = ScriptedEngine()
    async with running(engine) as live:
        said = meeting("One.", "Two three.")
        replay = player(live, said, to=("de",), views=("live",))
        playing = asyncio.create_task(replay.play())
        await until(lambda: bool(replay.readings("de", "live")))
        engine.hold()
        await until(lambda: len(replay._said) == 2)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        assert not replay.whole
        assert finals(replay.readings("de", "live")) == ["[de] One."]
        engine.release()


async def test_a_gateway_that_stops_ends_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "PATIENCE_S", 0.0)

    async with running(ScriptedEngine(delay=60.0), drain_s=0.0) as live:
        replay = player(live, meeting("One."))
        playing = asyncio.create_task(replay.play())
        await until(lambda: bool(replay._said))
        live.server.should_exit = True
        with pytest.raises(ConnectionLost):
            await playing
        assert replay.begun


async def test_a_language_that_the_gateway_does_not_have_is_named() -> None:
    async with running() as live:
        with pytest.raises(ValueError, match="does not have tlh. It has: ar, de, en"):
            await player(live, meeting("One."), to=("de", "tlh")).play()
        with pytest.raises(Refused, match="tlh"):
            await player(live, meeting("One.", lang="tlh")).play()
        assert not player(live, meeting("One.")).begun


async def test_the_final_texts_alone_are_translated_to_compare_with() -> None:
    fault = failing(EngineFault("It broke."), times=1000, when=lambda job: job.text == "Two.")
    engine = ScriptedEngine(fault=fault)
    async with running(engine, Limits(text=9)) as live:
        replay = player(live, meeting("One.", "Two.", "Too long for it."), to=("de",))
        await replay.compare()
        assert replay.offline == {("None1", "de"): "[de] One.", ("None2", "de"): ""}
        assert replay.work_offline is not None
        assert replay.work_offline.tokens == 2


async def test_engine_tokens_are_counted() -> None:
    async with running() as live:
        before = await work(live.ws)
        assert before is not None
        assert before.tokens == 0
        replay = player(live, meeting("One two."), to=("de",))
        await replay.play()
        assert replay.work is not None
        assert replay.work.tokens >= 3
        for url in (live.socket, live.http):
            after = await work(url)
            assert after is not None
            assert after.tokens == replay.work.tokens


async def test_a_gateway_without_counters_is_replayed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as live:
        assert await work(live.ws + "/nothing") is None
        assert await work("127.0.0.1:1") is None

        async def none(*_: object) -> None:
            return None

        monkeypatch.setattr(play, "work", none)
        replay = player(live, meeting("One."))
        await replay.play()
        assert replay.work is None


async def test_captions_are_shown_while_they_grow() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    engine = ScriptedEngine(pace=0.01)
    async with running(engine) as live:
        out = Terminal()
        said = meeting("One two three four.", speaker="Anna") + meeting("Five.")
        await player(live, said, screen=Screen(out)).play()
        text = out.getvalue()
        assert "Anna: One two three four.\n" in text
        assert "Speaker: Five.\n" in text
        for lang in ("de", "fr"):
            assert text.count(f"[{lang}] [{lang}] One two three four.\n") >= 1
        assert text.index("[de] [de]") < text.index("Anna: ")


# --- files ---------------------------------------------------------------------------------------


def test_a_file_of_either_form_is_read(tmp_path: Path) -> None:
    columns, lines = tmp_path / "a.en-de.tsv", tmp_path / "a.jsonl"
    columns.write_text("\ufeffHi.\tHallo.\n", "utf-8")
    lines.write_text('{"lang":"en","text":"Hi."}\n', "utf-8")
    assert load(columns)[0].references == {"de": "Hallo."}
    assert load(lines)[0].text == "Hi."


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl", b"{}", r"a\.jsonl: Line 1: .*`lang`"),
        ("a.tsv", b"a\tb", r"a\.tsv: Which languages"),
        ("a.tsv", b"\n", r"a\.tsv: nothing is said"),
        ("a.tsv", b"\xff\xfe", r"a\.tsv is not UTF-8: .* at byte 0"),
    ],
)
def test_a_file_that_cannot_be_played_is_named(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=says):
        load(tmp_path / name)


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play, "FILE_BYTES", 3)
    (tmp_path / "a.tsv").write_text("long")
    with pytest.raises(ValueError, match="larger than 3 bytes"):
        load(tmp_path / "a.tsv")
