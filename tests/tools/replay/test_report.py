"""The report of a replay, its table, and the logs for other programs."""

from __future__ import annotations

import msgspec
import pytest

from caption_tools.replay import report
from caption_tools.replay.analysis.measure import ReaderRecord
from caption_tools.replay.meeting.script import RecogniserUpdate, ScriptUtterance, ShownCaption
from caption_tools.replay.play import EngineWork
from caption_tools.replay.report import ReplayReport, row, table
from tests.support.typed import near


def reading(id: str, text: str, lang: str = "de", reference: str = "Guten Morgen.") -> ReaderRecord:
    said = ScriptUtterance(
        id=id,
        lang="en",
        text="Good morning.",
        t0=1.0,
        t1=2.0,
        updates=(RecogniserUpdate(1.4, "good"), RecogniserUpdate(1.8, "good morning")),
        references={lang: reference} if reference else {},
    )
    head = text[: len(text) // 2]
    return ReaderRecord(
        said=said, shown=(ShownCaption(1.5, "", head), ShownCaption(2.1, text, "", True))
    )


def whole(*rows: report.ReplayRow, **fields: object) -> ReplayReport:
    made = ReplayReport(
        engine="e", whole=True, utterances=2, seconds=9.6, late_ms=3.2, refused=0, rows=rows
    )
    return msgspec.structs.replace(made, **fields)


def test_finals_are_scored_against_the_references() -> None:
    found = row([reading("1", "Guten Morgen."), reading("2", "Guten Morgen.")], "de", "live")
    assert (found.lang, found.view, found.captions) == ("de", "live", 2)
    assert (found.chrf, found.offline, found.same) == (near(100), None, None)
    assert found.bleu is not None


@pytest.mark.parametrize("lang", ["ja", "zh"])
def test_characters_are_scored_where_there_are_no_spaces(lang: str) -> None:
    found = row([reading("1", "早上好大家。", lang, "早上好大家。")], lang, "live")
    assert found.bleu == pytest.approx(100)


def test_finals_are_compared_with_translations_of_the_final_texts_alone() -> None:
    offline = {("1", "de"): "Guten Morgen.", ("2", "de"): "Gute Nacht."}
    found = row([reading("1", "Guten Morgen."), reading("2", "Guten Tag.")], "de", "live", offline)
    assert found.same == 0.5
    assert found.offline is not None
    assert found.chrf is not None
    alone = report.chrf(["Guten Morgen.", "Gute Nacht."], ["Guten Morgen."] * 2)
    assert found.offline == pytest.approx(found.chrf - alone)


def test_a_caption_that_failed_scores_as_an_empty_one() -> None:
    failed = msgspec.structs.replace(reading("2", "x"), shown=(ShownCaption(2.1, "", "", True),))
    found = row([reading("1", "Guten Morgen."), failed], "de", "live", {})
    assert (found.captions, found.failed) == (1, 1)
    assert found.chrf is not None
    assert found.chrf < 100


def test_without_references_there_are_no_scores() -> None:
    found = row([reading("1", "Guten Morgen.", reference="")], "de", "stable", {("1", "de"): "Hm."})
    assert (found.bleu, found.chrf, found.offline, found.same) == (None, None, None, 0.0)
    assert row([], "de", "live", {}).same is None


def test_the_table_has_a_row_for_each_language_and_view() -> None:
    rows = [row([reading("1", "Guten Morgen.")], "de", view) for view in ("live", "stable")]
    lines = table(whole(*rows, row([], "fr", "live"))).split("\n")
    assert lines[0] == "2 utterances in 10 s on e; said at most 3 ms late, 0 texts refused"
    assert lines[1].split()[:5] == ["lang", "view", "captions", "failed", "lost"]
    assert lines[2].split()[:6] == ["de", "live", "1", "0", "0", "0.000"]
    assert lines[3].startswith("de    stable")
    assert set(lines[4].split()[5:]) == {"-"}


def test_the_offline_column_says_what_growing_cost() -> None:
    found = row([reading("1", "Guten Tag.")], "de", "live", {("1", "de"): "Guten Morgen."})
    assert found.offline is not None
    assert found.offline < 0
    assert table(whole(found)).split()[-2:] == [f"{found.offline:+.2f}", "0%"]


def test_tokens_are_compared_with_those_of_the_final_texts_alone() -> None:
    assert "tokens" not in table(whole())
    assert table(whole(work=EngineWork(30.0))).split("\n")[1] == "30 engine tokens"
    made = whole(work=EngineWork(30.0), work_offline=EngineWork(12.0), whole=False)
    text = table(made).split("\n")
    assert text[0].startswith("2 utterances in 10 s on e, cut short")
    assert text[1] == "30 engine tokens, 2.50 for each of the final texts alone"
    none = whole(work=EngineWork(30.0), work_offline=EngineWork(0.0))
    assert table(none).split("\n")[1] == "30 engine tokens"


def test_the_work_for_each_caption_and_the_accepted_share_of_drafts_are_told() -> None:
    rows = [row([reading("1", "Guten Morgen.")], "de", view) for view in ("live", "stable")]
    made = whole(*rows, work=EngineWork(30.0, drafted=40.0, accepted=30.0, cpu_s=0.25))
    assert table(made).split("\n")[1] == (
        "30 engine tokens; for each caption 30.0 tokens and 250 ms of CPU time;"
        " 75% of 40 drafted ones accepted"
    )
    assert "ms of CPU" not in table(whole(*rows, work=EngineWork(30.0)))
