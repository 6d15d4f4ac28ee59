"""Transcripts from logs: texts, states and times."""

from __future__ import annotations

import pytest

from gateway.core.history.event_log import LogEntry
from gateway.core.transcripts.transcript import (
    JUMP_S,
    SPAN_S,
    EntryState,
    Transcript,
    TranscriptCaption,
)
from gateway.limits import Limits
from gateway.protocol.messages import Source
from tests.support.history import QUARTER, History


def times(history: History) -> list[tuple[float, float]]:
    return [(round(u.begin, 6), round(u.end, 6)) for u in history.read().utterances]


# --- texts ----------------------------------------------------------------------------------------


def test_an_empty_log_is_an_empty_transcript() -> None:
    transcript = History().read()
    assert transcript == Transcript((), True)
    assert transcript.langs == [] and transcript.spoken == []


def test_an_utterance_has_its_original_and_its_captions() -> None:
    history = History()
    history.settings()
    history.say("u1", "Good morning.", speaker="Ann", t0=3.0, t1=4.0)
    history.caption("u1", "de", "Guten Morgen.")
    history.caption("u1", "fr", "Bonjour.", at=2.5)
    utterance = history.only()
    assert (utterance.id, utterance.speaker, utterance.lang) == ("u1", "Ann", "en")
    assert (utterance.t0, utterance.t1, utterance.at) == (3.0, 4.0, 1.0)
    assert utterance.read("de").text == "Guten Morgen."
    assert utterance.read("fr") == TranscriptCaption(
        state=EntryState.FINAL, text="Bonjour.", by="mt", at=2.5
    )
    assert history.read().langs == ["de", "en", "fr"]


def test_utterances_come_in_the_order_of_their_ord() -> None:
    history = History()
    history.say("late", ord=2)
    history.say("early", ord=1)
    assert [u.id for u in history.read().utterances] == ["early", "late"]


def test_a_reader_of_the_speakers_language_gets_the_original() -> None:
    history = History()
    history.say("u1", "Good morning.")
    history.caption("u1", "en-GB", "Good morning.", by="same")
    caption = history.only().read("en-GB")
    assert (caption.state, caption.text, caption.by) == (EntryState.SAME, "Good morning.", "same")
    assert history.read().langs == ["en"]


def test_a_caption_serves_readers_of_another_region_but_not_of_another_script() -> None:
    history = History()
    history.say("u1")
    history.caption("u1", "de-AT", "Guten Morgen.")
    history.caption("u1", "zh", "早上好")
    assert history.only().read("de").text == "Guten Morgen."
    assert history.only().read("zh-Hant").state is EntryState.MISSING


def test_a_language_that_nobody_read_is_missing() -> None:
    history = History()
    history.say("u1")
    assert history.only().read("de") == TranscriptCaption(state=EntryState.MISSING)


def test_an_edit_replaces_a_caption() -> None:
    history = History()
    history.say("u1")
    history.caption("u1", "de", "Gute Morgen.")
    history.edit("u1", "de", "Guten Morgen.")
    caption = history.only().read("de")
    assert caption == TranscriptCaption(
        state=EntryState.EDITED, text="Guten Morgen.", by="human", at=4.0
    )
    assert not history.only().edited


def test_an_edit_in_the_speakers_language_replaces_the_original() -> None:
    history = History()
    history.say("u1", "God morning.")
    history.caption("u1", "de", "Gott Morgen.")
    history.edit("u1", "en", "Good morning.")
    history.edit("u1", "de", "Guten Morgen.", by="mt")
    utterance = history.only()
    assert (utterance.text, utterance.edited) == ("Good morning.", True)
    assert utterance.read("de").by == "mt"


def test_an_edit_gives_a_failed_caption_a_text() -> None:
    history = History()
    history.say("u1")
    history.fail("u1", "de")
    assert history.only().read("de").code == "timeout"
    assert not history.only().read("de").state.shown
    history.edit("u1", "de", "Guten Morgen.")
    assert history.only().read("de").text == "Guten Morgen."


def test_a_failure_leaves_no_text() -> None:
    history = History()
    history.say("u1")
    history.fail("u1", "de")
    assert history.only().read("de") == TranscriptCaption(
        state=EntryState.FAILED, at=3.0, code="timeout"
    )
    assert history.read().langs == ["en"]


def test_a_cancelled_language_leaves_the_original() -> None:
    history = History()
    history.say("u1")
    history.caption("u1", "fr", "Bonjour.")
    history.cancel("u1", "de")
    utterance = history.only()
    assert utterance.read("de").state is EntryState.CANCELLED
    assert utterance.read("fr").state is EntryState.FINAL


def test_a_cancelled_utterance_keeps_captions_that_had_ended() -> None:
    history = History()
    history.cancel("never said", "de")
    history.say("u1")
    history.caption("u1", "fr", "Bonjour.")
    history.cancel("u1")
    assert history.only().read("fr").state is EntryState.FINAL
    assert history.only().read("de").state is EntryState.MISSING


def test_a_caption_after_a_failure_counts() -> None:
    history = History()
    history.say("u1")
    history.cancel("u1", "de")
    history.caption("u1", "de", "Guten Morgen.")
    assert history.only().read("de").state is EntryState.FINAL


def test_a_withdrawn_utterance_is_removed() -> None:
    history = History()
    history.say("u1")
    history.say("u2")
    history.caption("u1", "de", "Guten Morgen.")
    history.retract("u1")
    history.edit("u1", "de", "Zu spät.")
    history.edit("u1", "en", "Too late.")
    assert history.only().id == "u2"
    assert history.read().langs == ["en"]


def test_an_id_used_again_is_another_utterance() -> None:
    history = History()
    history.say("1", "First.")
    history.caption("1", "de", "Erstens.")
    history.say("1", "Second.")
    history.cancel("1", "de")
    first, second = history.read().utterances
    assert (first.text, first.read("de").text) == ("First.", "Erstens.")
    assert (second.text, second.read("de").state) == ("Second.", EntryState.CANCELLED)
    history.retract("1")
    assert history.only().text == "First."


def test_parts_of_a_long_utterance_are_utterances() -> None:
    history = History()
    history.say("u1", "First part,")
    history.say("u1.2", "and second.")
    history.retract("u1.2")
    assert history.only().text == "First part,"


def test_a_log_without_its_beginning_gives_an_incomplete_transcript() -> None:
    history = History(Limits(log=4))
    history.say("u1")
    history.caption("u1", "fr", "Bonjour.")
    assert history.read().complete
    history.caption("u1", "de", "Guten Morgen.")
    history.say("u2")
    history.caption("u2", "de", "Guten Tag.")
    transcript = history.read()
    assert not transcript.complete
    assert [u.id for u in transcript.utterances] == ["u2"]


# --- times without a speaker's clock --------------------------------------------------------------


def test_a_text_without_times_ends_when_it_arrives() -> None:
    history = History()
    history.say("u1", QUARTER * 4, at=10.0)
    assert times(history) == [(6.0, 10.0)]


def test_a_text_does_not_begin_before_the_room_did() -> None:
    history = History()
    history.say("u1", QUARTER * 4, at=1.0)
    assert times(history) == [(0.0, 1.0)]


def test_a_speaker_begins_after_the_end_of_the_sentence_before() -> None:
    history = History()
    history.say("u1", QUARTER * 2, at=10.0, speaker="Ann")
    history.say("u2", QUARTER * 4, at=12.0, speaker="Ann")
    history.say("u3", QUARTER * 4, at=12.0, speaker="Bernd")
    history.say("u4", QUARTER, at=12.0, speaker="Ann")
    assert times(history) == [(8.0, 10.0), (10.0, 12.0), (8.0, 12.0), (12.0, 12.0)]


def test_an_edit_does_not_change_the_time_of_an_utterance() -> None:
    history = History()
    history.say("u1", QUARTER, at=10.0)
    before = times(history)
    history.edit("u1", "en", QUARTER * 3)
    assert times(history) == before


# --- times of speakers' clocks --------------------------------------------------------------------


def test_a_speakers_clock_is_set_by_the_arrival_of_the_first_text() -> None:
    history = History()
    history.say("u1", at=10.0, t0=500.0, t1=503.0)
    history.say("u2", at=19.0, t0=504.0, t1=506.0)  # late: the connection was bad
    assert times(history) == [(7.0, 10.0), (11.0, 13.0)]


def test_speakers_with_clocks_of_their_own_interleave_as_they_spoke() -> None:
    history = History()
    history.say("a1", at=10.0, speaker="Ann", t0=500.0, t1=502.0)
    history.say("b1", at=13.0, speaker="Bernd", t0=0.0, t1=2.0)
    history.say("b2", at=17.0, speaker="Bernd", t0=4.5, t1=6.0)
    history.say("a2", at=18.0, speaker="Ann", t0=505.5, t1=506.4)  # said before b2, arrived later
    assert [u.id for u in history.read().spoken] == ["a1", "b1", "a2", "b2"]


def test_a_text_with_only_a_begin_lasts_as_long_as_it_takes_to_say() -> None:
    history = History()
    history.say("u1", QUARTER * 2, at=10.0, t0=100.0)
    assert times(history) == [(8.0, 10.0)]


def test_a_text_with_only_an_end_begins_earlier_by_the_time_to_say_it() -> None:
    history = History()
    history.say("u1", QUARTER * 2, at=10.0, t1=100.0)
    history.say("u2", QUARTER * 2, at=20.0, speaker="Ann", t1=1.0)
    assert times(history) == [(8.0, 10.0), (19.0, 20.0)]


@pytest.mark.parametrize("t1", [100.0, 99.0, 100.0 + 2 * SPAN_S])
def test_if_the_end_is_impossible_only_the_begin_is_used(t1: float) -> None:
    history = History()
    history.say("u1", QUARTER * 2, at=10.0, t0=100.0, t1=t1)
    assert times(history) == [(8.0, 10.0)]


def test_a_new_clock_of_a_speaker_is_set_by_the_time_of_arrival() -> None:
    history = History()
    history.say("u1", at=20.0, t0=10.0, t1=12.0)
    history.say("u2", at=40.0, t0=0.0, t1=2.0)  # runs backwards
    history.say("u3", at=40.0 + 10 * JUMP_S, t0=3.0, t1=5.0)  # goes apart
    later = 40.0 + 10 * JUMP_S
    assert times(history) == [(18.0, 20.0), (38.0, 40.0), (later - 2.0, later)]


def test_a_silence_does_not_set_the_clock_again() -> None:
    history = History()
    history.say("u1", at=20.0, t0=10.0, t1=12.0)
    history.say("u2", at=20.0 + 10 * JUMP_S, t0=10.0 + 10 * JUMP_S, t1=11.0 + 10 * JUMP_S)
    assert times(history)[1] == (18.0 + 10 * JUMP_S, 19.0 + 10 * JUMP_S)


def test_a_recording_that_is_read_out_faster_than_it_was_spoken_keeps_its_times() -> None:
    history = History()
    for n in range(100):
        history.say(f"u{n}", at=1.0, t0=n * 10.0, t1=n * 10.0 + 5.0)
    first, last = times(history)[0], times(history)[-1]
    assert first == (0.0, 5.0)
    assert last == (990.0, 995.0)


def test_a_new_clock_does_not_move_a_text_before_the_previous_one() -> None:
    history = History()
    for n in range(3):
        history.say(f"u{n}", at=1.0, t0=n * 50.0, t1=n * 50.0 + 40.0)
    history.say("again", at=2.0, t0=0.0, t1=2.0)
    assert times(history)[-2:] == [(100.0, 140.0), (140.0, 142.0)]


def test_texts_with_and_without_times_may_come_from_one_speaker() -> None:
    history = History()
    history.say("u1", at=10.0, t0=0.0, t1=2.0)
    history.say("typed", QUARTER, at=15.0)
    history.say("u2", at=20.0, t0=10.0, t1=12.0)
    assert times(history) == [(8.0, 10.0), (14.0, 15.0), (18.0, 20.0)]


def test_a_transcript_can_be_made_from_any_entries() -> None:
    event = Source(seq=1, id="u1", rev=1, ord=1, lang="en", text=QUARTER)
    (utterance,) = Transcript.of(iter([LogEntry(event, 3.0)])).utterances
    assert (utterance.begin, utterance.end) == (2.0, 3.0)
