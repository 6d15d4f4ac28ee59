"""Transcripts of any room: they can be parsed, and they keep their rules."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import Any

import msgspec
import srt
import webvtt
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.core.history.event_log import LogEntry
from gateway.core.transcripts import cues, formats
from gateway.core.transcripts.cues import LINE, LINES, SHORTEST_S, CueTiming
from gateway.core.transcripts.formats import Choice, Title
from gateway.core.transcripts.transcript import Transcript
from gateway.protocol.messages import Cancelled, Edited, Failed, Final, Retracted, Source, Timing

SHORTEST = round(1000 * SHORTEST_S)

letters = st.sampled_from("ab éñß,.!?;:…—()“”'\u00a0\u3000我们会議室のデータ、。「」ー한국ไทย้हिन्दी")
strange = st.sampled_from("\u200b\u0301\u200d\U0001f469\U0001f3fd\U0001f1e9\ufe0f\u0e49")
texts = st.text(letters | strange | st.characters(exclude_categories=["Cs"]), max_size=300)
plains = texts.map(cues.plain).filter(bool)


def width(text: str) -> float:
    """In narrow characters, measured without the module's own ruler."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    unseen = sum(
        unicodedata.category(c) in ("Mn", "Me", "Cf")
        for c in text
        if c >= "\u0300" and unicodedata.east_asian_width(c) not in "WF"
    )
    return len(text) - wide - unseen + wide * 42 / 16


def bare(text: str) -> str:
    return "".join(text.replace("\u3000", " ").split(" "))


# --- layout and time ------------------------------------------------------------------------------


@given(plains)
@example("\u200b")
@example("\u0301" * 30 + "\U0001f469\u200d" * 40)
@example("“" * 100 + "会" + "”" * 100)
def test_any_text_is_laid_out_whole_within_the_lines(text: str) -> None:
    parts = [part[0] for part in cues.lay([text], ["en"])]
    assert bare("".join("".join(part) for part in parts)) == bare(text)
    for part in parts:
        assert 1 <= len(part) <= LINES
        assert all(line and width(line) <= LINE for line in part)


@given(plains, plains)
def test_any_two_texts_are_laid_out_whole_a_line_for_each(one: str, two: str) -> None:
    parts = cues.lay([one, two], ["ja", "de"])
    for n, text in enumerate((one, two)):
        shown = [part[n] for part in parts]
        assert all(len(lines) == 1 and 0 < len(lines[0]) for lines in shown)
        assert all(width(line) <= LINE for (line,) in shown)
        rest = bare(text)
        last = None
        for (line,) in shown:
            if rest.startswith(bare(line)) and not (line == last and bare(line) * 2 not in text):
                rest = rest.removeprefix(bare(line))
            else:
                assert line == last, "a part may stay, and none is left out"
            last = line
        assert not rest or bare(text).endswith(bare(shown[-1][0]))


slots = st.builds(
    lambda begin, span, reading: CueTiming(begin, begin + span, reading),
    st.integers(0, 60_000),
    st.integers(0, 20_000),
    st.integers(SHORTEST, 5_000),
)
queues = st.lists(slots, max_size=20).map(lambda all: sorted(all, key=lambda slot: slot.begin))


@given(queues)
def test_any_cues_are_settled_in_order_without_overlap_and_long_enough(
    planned: list[CueTiming],
) -> None:
    settled = cues.settle(planned)
    assert len(settled) == len(planned)
    assert all(end - begin >= SHORTEST for begin, end in settled)
    assert all(one[1] <= two[0] for one, two in pairwise(settled))
    assert all(begin >= slot.begin for (begin, _), slot in zip(settled, planned, strict=True))


@given(queues)
def test_only_in_a_crowd_cues_come_late_or_are_taken_away_before_they_are_read(
    planned: list[CueTiming],
) -> None:
    apart: list[CueTiming] = []
    for slot in planned:
        if not apart or slot.begin >= apart[-1].begin + apart[-1].reading:
            apart.append(slot)
    for (begin, end), slot in zip(cues.settle(apart), apart, strict=True):
        assert begin == slot.begin
        assert end - begin >= slot.reading


# --- whole transcripts ----------------------------------------------------------------------------

LANGS = ("de", "en", "en-GB", "zh", "ja", "zh-Hant", "sr-Latn")
nasty = st.sampled_from(
    [
        *("-->", "00:00:01.000 --> 00:00:02.000", "1\n00:00:01,000 --> 00:00:02,000\nx", "WEBVTT"),
        *(
            "NOTE this",
            "STYLE",
            "REGION",
            "<b>bold</b>",
            "<v Eve>",
            "</v>",
            "a < b & c > d",
            "&amp;",
        ),
        *(
            "{\\an8}up",
            "\r\n\r\n",
            "\x00",
            " ",
            "",
            "1",
            "u1/2",
            "u1+2",
            "-",
            "\ufeff",
            "word " * 60,
        ),
    ]
)
words = nasty | st.text(letters, max_size=30).map(lambda text: text * 4)
ids = st.sampled_from(["u1", "u1.2", "u1/2", "u1+2", "u2", "u3"]) | nasty | st.text(max_size=8)
langs = st.sampled_from(LANGS)
seconds = st.none() | st.floats(0, 100) | st.floats(0, 1e9)
speakers = st.none() | st.sampled_from(["Ann", "Bernd"]) | nasty | st.text(max_size=130)
MS = Timing(queue=1, first=2, total=3)


@st.composite
def logs(draw: st.DrawFn) -> list[LogEntry]:
    """Return a log that keeps its form and nothing else."""
    entries: list[LogEntry] = []
    seq = draw(st.sampled_from([0, 0, 7]))
    at = 0.0
    sources: list[Source] = []
    for _ in range(draw(st.integers(0, 12))):
        seq += 1
        at += draw(st.sampled_from([0.0, 0.1, 2.0, 30.0, 4000.0]))
        kind = draw(st.sampled_from("sssffcexr"))
        if kind == "s" or not sources:
            t0, t1, speaker, text = draw(seconds), draw(seconds), draw(speakers), draw(words)
            source = Source(
                seq=seq,
                id=draw(ids),
                rev=1,
                ord=seq,
                lang=draw(langs),
                text=text,
                speaker=speaker,
                t0=t0,
                t1=t1,
            )
            sources.append(source)
            entries.append(LogEntry(source, at))
            continue
        said = draw(st.sampled_from(sources))
        fields: dict[str, Any] = {"seq": seq, "id": said.id, "ord": said.ord}
        lang = draw(langs)
        match kind:
            case "f":
                text = draw(words)
                final = Final(**fields, rev=1, lang=lang, text=text, by="mt", ms=MS)
                entries.append(LogEntry(final, at))
            case "x":
                failed = Failed(**fields, rev=1, lang=lang, code="timeout", retry=True)
                entries.append(LogEntry(failed, at))
            case "e":
                edited = Edited(**fields, rev=1, lang=lang, text=draw(words), by="human")
                entries.append(LogEntry(edited, at))
            case "c":
                cancelled = Cancelled(seq=seq, id=said.id, rev=1, lang=lang, was="running")
                entries.append(LogEntry(cancelled, at))
            case _:
                entries.append(LogEntry(Retracted(**fields), at))
    return entries


choices = st.sampled_from(
    [(None,), ("de",), ("zh",), (None, "de"), (None, "en"), ("ja", "zh-Hant")]
)

TOKEN = re.compile(
    r"<v (?P<voice>[^&<>\n]+)>|<lang (?P<lang>[A-Za-z0-9-]+)>|(?P<end></lang>)"
    r"|(?P<text>(?:[^&<>]|&(?:amp|lt|gt);)+)"
)


def shown(payload: str) -> str:
    """Return the text of a WebVTT cue by the grammar of its payload (W3C, 4.2.2) alone."""
    at, inside, text = 0, False, ""
    while at < len(payload):
        token = TOKEN.match(payload, at)
        assert token, payload[at:]
        assert token["voice"] is None or at == 0
        if token["lang"]:
            assert not inside
            inside = True
        elif token["end"]:
            assert inside
            inside = False
        elif token["text"]:
            text += token["text"]
        at = token.end()
    assert not inside
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def keep_the_rules(times: list[tuple[int, int]], payloads: list[str]) -> None:
    assert all(end - begin >= SHORTEST for begin, end in times)
    assert all(one[1] <= two[0] for one, two in pairwise(times))
    for payload in payloads:
        lines = payload.split("\n")
        assert 1 <= len(lines) <= LINES
        assert all(line and width(line) <= LINE for line in lines)


@given(logs(), choices)
def test_any_log_gives_webvtt_that_can_be_parsed(log: list[LogEntry], choice: Choice) -> None:
    transcript = Transcript.of(log)
    text = formats.vtt(transcript, choice)
    parsed = webvtt.from_string(text, strict=True)
    blocks = [block for block in text.split("\n\n")[1:-1] if not block.startswith("NOTE ")]
    assert len(parsed.captions) == len(blocks)
    names = [block.split("\n")[0] for block in blocks]
    assert names == [cue.identifier for cue in parsed.captions]
    assert len(set(names)) == len(names) and not any("-->" in name for name in names)
    times = []
    payloads = []
    for block in blocks:
        _, timing, payload = block.split("\n", 2)
        match = re.fullmatch(
            r"(\d{2,}):(\d\d):(\d\d)\.(\d{3}) --> (\d{2,}):(\d\d):(\d\d)\.(\d{3})", timing
        )
        assert match
        h, m, s, ms, h2, m2, s2, ms2 = map(int, match.groups())
        times.append((((h * 60 + m) * 60 + s) * 1000 + ms, ((h2 * 60 + m2) * 60 + s2) * 1000 + ms2))
        payloads.append(shown(payload))
    keep_the_rules(times, payloads)


@given(logs(), choices)
def test_any_log_gives_subrip_that_can_be_parsed(log: list[LogEntry], choice: Choice) -> None:
    text = formats.srt(Transcript.of(log), choice)
    parsed = list(srt.parse(text))
    assert [cue.index for cue in parsed] == list(range(1, len(parsed) + 1))
    assert text.count(" --> ") == text.count("-->") == len(parsed)
    times = [
        (round(cue.start.total_seconds() * 1000), round(cue.end.total_seconds() * 1000))
        for cue in parsed
    ]
    keep_the_rules(times, [block.split("\n", 2)[2] for block in text.split("\n\n")[:-1]])
    assert not re.search(r"</?[A-Za-z]|\{\\", text)


@given(logs(), choices)
def test_any_log_gives_a_line_of_text_for_each_utterance(
    log: list[LogEntry], choice: Choice
) -> None:
    transcript = Transcript.of(log)
    lines = formats.txt(transcript, choice).split("\n")
    assert lines.pop() == ""
    if not transcript.complete:
        assert lines.pop(0).startswith("(")
    starts = [line for line in lines if not line.startswith(" " * 11)]
    times = [re.match(r"\[(\d+):([0-5]\d):([0-5]\d)\] ", line) for line in starts]
    clocks = [tuple(map(int, time.groups())) for time in times if time]
    assert len(clocks) == len(starts) and clocks == sorted(clocks)


@given(logs())
def test_any_log_gives_json_with_every_utterance_and_language(log: list[LogEntry]) -> None:
    transcript = Transcript.of(log)
    whole = msgspec.json.decode(formats.json(transcript, Title("r", "e", 9, 1_800_000_000), LANGS))
    assert [row["ord"] for row in whole["utterances"]] == [u.ord for u in transcript.utterances]
    for row in whole["utterances"]:
        assert set(row["captions"]) == set(LANGS)
        assert 0 <= row["begin"] <= row["end"]


@given(logs(), choices)
def test_what_comes_later_does_not_move_what_was_said_before(
    log: list[LogEntry], choice: Choice
) -> None:
    before = {u.ord: (u.begin, u.end) for u in Transcript.of(log[: len(log) // 2]).utterances}
    after = {u.ord: (u.begin, u.end) for u in Transcript.of(log).utterances}
    assert all(after[ord] == time for ord, time in before.items() if ord in after)


@given(logs())
def test_nobody_speaks_twice_at_once(log: list[LogEntry]) -> None:
    ends: dict[str | None, float] = {}
    for utterance in Transcript.of(log).utterances:
        assert utterance.begin >= ends.get(utterance.speaker, 0.0)
        ends[utterance.speaker] = utterance.end
