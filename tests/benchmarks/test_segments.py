"""Kinds of places of cuts, and the texts that `benchmarks.segments` cuts."""

from __future__ import annotations

from random import Random

from benchmarks.segments import places, spoken
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.segmentation import SegmentLengths
from gateway.text import units


def test_a_cut_is_at_a_sentence_a_mark_or_neither() -> None:
    text = "We met. Then we left, as you know, by train"
    parts = ["we met", "then we left", "as you", "know by train"]
    assert list(places(text, parts, "en")) == ["sentence", "mark", "no"]
    assert list(places("你好吗？我很好。", ["你好吗", "我", "很好"], "zh")) == ["sentence", "no"]


def test_no_word_is_lost_or_said_twice_by_the_cuts() -> None:
    text = (
        "First we met at the station, but then we left by train because the others had gone home."
    )
    flow = StreamingOptions(lengths=SegmentLengths(most=8, clause=3))
    parts = spoken(text, "en", flow, Random(0))
    assert len(parts) > 1
    assert units.keyed(" ".join(parts), True)[0] == units.keyed(text, True)[0]
