"""The report of a replay, as a table and as JSON.

Owns: the report and its forms, and its scores against human translations, by sacrebleu. Must not
know: sockets, how captions came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import asdict, astuple
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from caption_tools.replay.analysis import measure
from caption_tools.replay.analysis.measure import CaptionMetrics, ReaderRecord
from caption_tools.replay.play import EngineWork, Player
from caption_tools.report import table as tables
from gateway.protocol.messages import View


class ReplayRow(CaptionMetrics, frozen=True, kw_only=True):
    """The figures of one language in one view. Scores are those of finals with a reference."""

    lang: str
    view: View
    bleu: float | None = None
    chrf: float | None = None
    offline: float | None = None  # chrF minus that of the same texts translated without growing
    same: float | None = None  # share of the finals that equal those translated without growing


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one replay."""

    engine: str
    whole: bool  # False if it was cut short
    utterances: int
    seconds: float
    late_ms: float  # the most by which a text was sent too late
    refused: int  # texts that were not accepted
    work: EngineWork | None = None  # of the engine; None if unknown
    work_offline: EngineWork | None = None  # the same for the final texts alone
    rows: tuple[ReplayRow, ...] = ()


def made(player: Player) -> ReplayReport:
    """Return the report of a replay, as far as it came."""
    return ReplayReport(
        engine=player.engine,
        whole=player.whole,
        utterances=len(player.utterances),
        seconds=player.seconds,
        late_ms=1000 * player.late,
        refused=player.refused,
        work=player.work,
        work_offline=player.work_offline,
        rows=tuple(
            row(player.readings(lang, view), lang, view, player.offline)
            for lang in player.to
            for view in player.views
        ),
    )


def row(
    readings: Sequence[ReaderRecord],
    lang: str,
    view: View,
    offline: Mapping[tuple[str, str], str] | None = None,
) -> ReplayRow:
    """Return the figures of one reader.

    :param offline: translations of the final texts alone, by (utterance, language)
    """
    made = {reading.said.id: reading.final.text if reading.final else "" for reading in readings}
    known = {
        reading.said.id: text for reading in readings if (text := reading.said.references.get(lang))
    }
    values = asdict(measure.figures(readings, lang)) | {"lang": lang, "view": view}
    # Scores need the same utterances on both sides.
    if known:
        right = [*known.values()]
        kept = [made[id] for id in known]
        values |= {"bleu": bleu(kept, right, lang), "chrf": chrf(kept, right)}
        if offline is not None:
            alone = chrf([offline.get((id, lang), "") for id in known], right)
            values["offline"] = values["chrf"] - alone
    if offline is not None and made:
        same = sum(offline.get((id, lang), "") == text for id, text in made.items())
        values["same"] = same / len(made)
    return ReplayRow(**values)


TOKENISERS = {"zh": "zh", "ja": "char"}
"""Tokenisers of BLEU by language; others have sacrebleu's default, ``13a``. Japanese is scored by
characters, since a tokeniser of words would be another dependency. Compare these scores with
nothing else.
"""

HEADS = (
    *("lang", "view", "captions", "failed", "lost", "erasure", "updates"),
    *("first p50", "p95", "final p50", "p95", "LAAL", "source"),
    *("BLEU", "chrF", "offline", "same"),
)
"""Heads of the table's columns; ``docs/reference/replay.md`` explains them."""


def table(report: ReplayReport) -> str:
    """Return the report as a table."""
    lines = [
        f"{report.utterances} utterances in {report.seconds:.0f} s on {report.engine or '?'}"
        + ("" if report.whole else ", cut short")
        + f"; said at most {report.late_ms:.0f} ms late, {report.refused} texts refused"
    ]
    if report.work is not None:
        lines.append(_work(report, report.work))
    lines.append(tables.text(HEADS, [_cells(row) for row in report.rows], left=2))
    return "\n".join(lines)


def _work(report: ReplayReport, work: EngineWork) -> str:
    """Return the work of the engine, as one line."""
    text = f"{work.tokens:.0f} engine tokens"
    offline = report.work_offline
    if offline is not None and offline.tokens:
        text += f", {work.tokens / offline.tokens:.2f} for each of the final texts alone"
    # The rows of one language have the same captions.
    captions = sum({row.lang: row.captions for row in report.rows}.values())
    if captions:
        text += f"; for each caption {work.tokens / captions:.1f} tokens"
        if work.cpu_s:
            text += f" and {1000 * work.cpu_s / captions:.0f} ms of CPU time"
    if work.drafted:
        text += f"; {work.accepted / work.drafted:.0%} of {work.drafted:.0f} drafted ones accepted"
    return text


def _cells(row: ReplayRow) -> tuple[str, ...]:
    return (
        row.lang,
        row.view,
        *(str(count) for count in (row.captions, row.failed, row.lost)),
        *_as(".3f", row.erasure),
        *_as(".1f", row.updates),
        *_as(".0f", *(astuple(row.agreed_ms) if row.agreed_ms else (None, None))),
        *_as(".0f", *(astuple(row.final_ms) if row.final_ms else (None, None))),
        *_as(".0f", row.laal_ms, row.laal_source_ms),
        *_as(".1f", row.bleu, row.chrf),
        *_as("+.2f", row.offline),
        *_as(".0%", row.same),
    )


def _as(form: str, *values: float | None) -> Iterator[str]:
    return ("-" if value is None else format(value, form) for value in values)


def bleu(made: Sequence[str], references: Sequence[str], lang: str) -> float:
    """Return BLEU of the whole set, 0 to 100."""
    tokeniser = TOKENISERS.get(lang.partition("-")[0], "13a")
    return float(BLEU(tokenize=tokeniser).corpus_score(list(made), [list(references)]).score)


def chrf(made: Sequence[str], references: Sequence[str]) -> float:
    """Return chrF of the whole set, 0 to 100."""
    return float(CHRF().corpus_score(list(made), [list(references)]).score)
