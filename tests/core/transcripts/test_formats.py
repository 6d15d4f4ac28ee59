"""Exact output of the four formats of transcripts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.core.transcripts import formats
from gateway.core.transcripts.formats import LABEL, Title
from gateway.limits import Limits
from tests.support.history import QUARTER, History


def meeting() -> History:
    """Return a transcript of two speakers with captions in all states."""
    history = History()
    history.say("u1", "Good morning everybody.", at=4.0, speaker="Ann", t0=1.0, t1=3.0)
    history.caption("u1", "de", "Guten Morgen zusammen.", at=4.5)
    history.say("u2", "Guten Morgen, Ann.", at=8.0, speaker="Bernd", lang="de", t0=0.5, t1=2.0)
    history.caption("u2", "en", "Good morning, Ann.", at=8.5)
    history.say("u3", "Who has the figures?", at=12.0, speaker="Ann", t0=8.0, t1=10.0)
    history.fail("u3", "de", at=12.5)
    history.say("u4", "I do.", at=16.0, speaker="Ann", t0=12.0, t1=13.0)
    return history


def vtt(history: History, *choice: str | None) -> str:
    return formats.vtt(history.read(), choice or (None,))


def srt(history: History, *choice: str | None) -> str:
    return formats.srt(history.read(), choice or (None,))


def txt(history: History, *choice: str | None) -> str:
    return formats.txt(history.read(), choice or (None,))


def json(history: History, *langs: str) -> dict[str, Any]:
    title = Title("demo", "9a41", history.log.seq, 1_800_000_000)
    body = formats.json(history.read(), title, langs)
    decoded: dict[str, Any] = msgspec.json.decode(body)
    return decoded


# --- WebVTT ---------------------------------------------------------------------------------------


def test_webvtt_in_one_language() -> None:
    assert vtt(meeting(), "de") == (
        "WEBVTT\n\n"
        "NOTE Not in this language: 1 of 4 utterances.\n\n"
        "u1\n00:00:02.000 --> 00:00:04.000\n<v Ann>Guten Morgen zusammen.\n\n"
        "u2\n00:00:06.500 --> 00:00:08.000\n<v Bernd>Guten Morgen, Ann.\n\n"
        "u3\n00:00:09.000 --> 00:00:11.000\n<v Ann><lang en>[en] Who has the figures?</lang>\n\n"
    )


def test_webvtt_of_the_original_has_what_everybody_said() -> None:
    text = vtt(meeting())
    assert "<v Ann>Good morning everybody.\n" in text
    assert "<v Bernd>Guten Morgen, Ann.\n" in text
    assert "NOTE" not in text and "[" not in text


def test_bilingual_webvtt_has_a_line_for_each_language_and_no_text_twice() -> None:
    assert vtt(meeting(), None, "de").split("\n\n")[1:4] == [
        "u1\n00:00:02.000 --> 00:00:04.000\n"
        "<v Ann><lang en>Good morning everybody.</lang>\n<lang de>Guten Morgen zusammen.</lang>",
        "u2\n00:00:06.500 --> 00:00:08.000\n<v Bernd><lang de>Guten Morgen, Ann.</lang>",
        "u3\n00:00:09.000 --> 00:00:11.000\n<v Ann><lang en>Who has the figures?</lang>",
    ]


def test_two_languages_are_shown_together_if_both_exist() -> None:
    history = meeting()
    history.caption("u1", "fr", "Bonjour à tous.")
    first, second, *_ = vtt(history, "fr", "de").split("\n\n")[2:]
    assert first.endswith("<lang fr>Bonjour à tous.</lang>\n<lang de>Guten Morgen zusammen.</lang>")
    assert second.endswith("<v Bernd><lang de>Guten Morgen, Ann.</lang>")


def test_a_long_utterance_becomes_cues_that_share_its_time() -> None:
    history = History()
    text = "word " * 17 + "end. " + "more " * 8
    history.say("u1", text, at=20.0, speaker="Ann", t0=0.0, t1=15.0)
    one, two = vtt(history).split("\n\n")[1:3]
    assert one.startswith("u1/1\n00:00:05.000 --> ")
    assert two.startswith("u1/2\n") and "--> 00:00:20.000\n" in two
    assert one.partition(" --> ")[2][:12] == two.split("\n")[1][:12]


def test_markup_in_texts_is_escaped_and_names_get_look_alikes() -> None:
    history = History()
    history.say("u1", "<b>&amp;</b> --> a > b", speaker="A&B <x>\n")
    assert "<v A＆B ‹x›>&lt;b&gt;&amp;amp;&lt;/b&gt; --&gt; a &gt; b\n" in vtt(history)


def test_a_speaker_without_a_name_has_no_voice_tag() -> None:
    history = History()
    history.say("u1", "Hello.")
    history.say("u2", "Hello.", speaker=" \n")
    assert "<v" not in vtt(history)


@pytest.mark.parametrize("id", ["NOTE", "STYLE", "REGION", "WEBVTT", "\n"])
def test_an_id_that_looks_like_a_block_gets_a_prefix(id: str) -> None:
    history = History()
    history.say(id, "Hello.")
    assert vtt(history).split("\n")[2] == "#" + id.strip()


def test_names_of_cues_are_unique_lines_without_an_arrow() -> None:
    history = History()
    history.say("a-->\nb")
    history.say("1")
    history.say("1")
    history.say("1+3")
    names = [block.split("\n")[0] for block in vtt(history).split("\n\n")[1:-1]]
    assert names == ["a--› b", "1", "1+3", "1+3+4"]


def test_hours_have_two_digits_or_more() -> None:
    history = History()
    history.say("u1", QUARTER, at=3_601.0)
    history.say("u2", QUARTER, at=360_001.0)
    text = vtt(history)
    assert "01:00:00.000 --> 01:00:01.000" in text
    assert "100:00:00.000 --> 100:00:01.000" in text


def test_an_empty_transcript_is_valid_webvtt() -> None:
    assert vtt(History()) == "WEBVTT\n\n"


def test_a_text_corrected_to_nothing_is_not_shown() -> None:
    history = meeting()
    history.edit("u1", "de", " ")
    assert "Guten Morgen zusammen" not in vtt(history, "de")
    assert "u1\n" not in vtt(history, "de")
    history.edit("u1", "en", " ")
    assert "[00:00:02]" not in txt(history, "de")


# --- SubRip ---------------------------------------------------------------------------------------


def test_subrip_names_the_speaker_after_a_change() -> None:
    assert srt(meeting(), "en") == (
        "1\n00:00:02,000 --> 00:00:04,000\nAnn: Good morning everybody.\n\n"
        "2\n00:00:06,500 --> 00:00:08,000\nBernd: Good morning, Ann.\n\n"
        "3\n00:00:09,000 --> 00:00:11,000\nAnn: Who has the figures?\n\n"
        "4\n00:00:13,000 --> 00:00:14,000\nI do.\n\n"
    )


def test_subrip_in_a_language_that_nobody_read_is_empty() -> None:
    history = History()
    history.say("u1")
    assert srt(history, "fr") == ""


def test_a_failed_caption_is_shown_as_the_marked_original() -> None:
    assert "\nAnn: [en] Who has the figures?\n" in srt(meeting(), "de")


def test_bilingual_subrip_has_a_line_for_each() -> None:
    assert "\nAnn: Good morning everybody.\nGuten Morgen zusammen.\n" in srt(meeting(), None, "de")


def test_subrip_contains_nothing_that_looks_like_a_time_or_markup() -> None:
    history = History()
    history.say("u1", "<b>x</b> {\\an8} 1 --> 2, 3 < 4", speaker="<i>")
    assert "‹i>: ‹b>x‹/b> (\\an8} 1 --› 2, 3 < 4\n" in srt(history)


def test_a_long_name_is_cut() -> None:
    history = History()
    history.say("u1", "Hello.", speaker="x" * 100)
    assert srt(history).split("\n")[2] == "x" * (LABEL - 1) + "…: Hello."


# --- plain text -----------------------------------------------------------------------------------


def test_text_has_a_line_for_each_utterance_and_leaves_none_out() -> None:
    assert txt(meeting(), "de") == (
        "[00:00:02] Ann: Guten Morgen zusammen.\n"
        "[00:00:06] Bernd: Guten Morgen, Ann.\n"
        "[00:00:09] Ann: [en] Who has the figures?\n"
        "[00:00:13] Ann: [en] I do.\n"
    )


def test_bilingual_text_has_the_other_language_below() -> None:
    assert txt(meeting(), None, "de").splitlines()[:3] == [
        "[00:00:02] Ann: Good morning everybody.",
        "           [de] Guten Morgen zusammen.",
        "[00:00:06] Bernd: Guten Morgen, Ann.",
    ]


def test_text_without_a_speaker_is_only_the_text() -> None:
    history = History()
    history.say("u1", "Hello.", at=3_723.0)
    assert txt(history) == "[01:02:02] Hello.\n"


def test_a_transcript_that_lost_its_beginning_says_so() -> None:
    history = History(Limits(log=1))
    history.say("u1", "Gone.")
    history.say("u2", "Here.")
    assert txt(history).startswith("(What was said before is no longer kept.)\n[")
    assert vtt(history).startswith("WEBVTT\n\nNOTE What was said before is no longer kept.\n\n")
    assert json(history)["complete"] is False


# --- JSON -----------------------------------------------------------------------------------------


def test_json_has_the_room_and_the_state_of_its_log() -> None:
    body = json(meeting(), "de", "fr")
    utterances = body.pop("utterances")
    assert body == {
        "room": "demo",
        "epoch": "9a41",
        "seq": 7,
        "began": 1_800_000_000,
        "complete": True,
        "languages": ["de", "fr"],
        "available": ["de", "en"],
    }
    assert [row["id"] for row in utterances] == ["u1", "u2", "u3", "u4"]


def test_json_has_the_original_and_the_languages_asked_for() -> None:
    history = meeting()
    history.caption("u1", "fr", "Bonjour.")
    history.edit("u1", "de", "Guten Morgen allerseits.", at=20.0)
    first = json(history, "de")["utterances"][0]
    assert first == {
        "id": "u1",
        "ord": 1,
        "speaker": "Ann",
        "lang": "en",
        "text": "Good morning everybody.",
        "edited": False,
        "begin": 2.0,
        "end": 4.0,
        "at": 4.0,
        "t0": 1.0,
        "t1": 3.0,
        "captions": {
            "de": {"state": "edited", "text": "Guten Morgen allerseits.", "by": "human", "at": 20.0}
        },
    }


def test_json_has_the_state_of_every_caption() -> None:
    history = meeting()
    history.cancel("u4", "fr")
    rows = json(history, "de", "fr")["utterances"]
    assert [row["captions"]["de"]["state"] for row in rows] == [
        "final",
        "same",
        "failed",
        "missing",
    ]
    assert rows[2]["captions"]["de"] == {"state": "failed", "at": 12.5, "code": "timeout"}
    assert rows[3]["captions"]["fr"] == {"state": "cancelled", "at": 3.0}


# --- the page -------------------------------------------------------------------------------------


def test_the_page_about_transcripts_shows_what_is_written() -> None:
    path = Path(__file__).parents[3] / "docs" / "reference" / "transcripts.md"
    page = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    history = History()
    history.say(
        "u1",
        "Good morning everybody. Today we look at the figures for the third quarter, and then we "
        "talk about Paris.",
        at=9.2,
        speaker="Ann",
        t0=101.0,
        t1=108.0,
    )
    german = (
        "Guten Morgen zusammen. Heute sehen wir uns die Zahlen für das dritte Quartal an, und dann "
        "sprechen wir über Paris."
    )
    history.say("u2", "Wer hat die Zahlen?", at=11.4, speaker="Bernd", lang="de", t0=3.1, t1=4.4)
    history.caption("u1", "de", german, at=12.0)
    history.say("u3", "I have them.", at=14.0, speaker="Ann", t0=111.5, t1=112.4)
    history.fail("u3", "de", at=44.0)
    assert blocks[0] + "\n" == vtt(history, "de")
    assert srt(history, None, "de").startswith(blocks[1] + "\n")
    assert blocks[2] == txt(history, "de")
    shown = msgspec.json.decode(blocks[3])
    whole = json(history, "de") | {"epoch": shown["epoch"]}
    assert shown == whole | {"utterances": whole["utterances"][1:2]}
