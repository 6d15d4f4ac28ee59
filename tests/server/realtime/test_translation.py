"""OpenAI's realtime translation in the messages of the gateway."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from gateway.protocol.audio import Audio
from gateway.protocol.messages import (
    AskStats,
    Bye,
    Cancelled,
    Delta,
    Failed,
    Final,
    Retracted,
    Source,
    Timing,
    Want,
)
from gateway.protocol.notices import Error, Presence
from gateway.server.realtime.dialect import ServerEvent
from gateway.server.realtime.translation import KEPT, TranslationDialect
from tests.server.realtime.talk import PIECE, Peer, heard, stats

APPEND = "session.input_audio_buffer.append"


def peer(to: str = "de", **query: str) -> Peer:
    return Peer(TranslationDialect({"to": to, **query}))


def listening(*ids: str) -> Peer:
    """Return a client of whom these utterances were heard."""
    client = peer()
    for id in ids or ("s1-1",):
        client.told(heard("x", id=id, final=True))
    return client


def session(lang: str | None = None, **wish: object) -> dict[str, Any]:
    return {"audio": {"input": wish, "output": {"language": lang} if lang else {}}}


def source(id: str = "s1-1") -> Source:
    return Source(seq=1, id=id, rev=1, ord=1, lang="en", text="x")


def delta(add: str, id: str = "s1-1", *, reset: bool = False) -> Delta:
    return Delta(id=id, rev=1, lang="de", add=add, reset=reset, n=len(add))


def final(text: str, id: str = "s1-1", lang: str = "de") -> Final:
    ms = Timing(queue=0, first=0, total=0)
    return Final(seq=2, id=id, rev=1, ord=1, lang=lang, text=text, by="mt", ms=ms)


def failed(id: str = "s1-1") -> Failed:
    return Failed(seq=2, id=id, rev=1, ord=1, lang="de", code="timeout", retry=True)


def cancelled(id: str = "s1-1") -> Cancelled:
    return Cancelled(seq=2, id=id, rev=1, was="running")


def texts(events: list[ServerEvent]) -> list[str]:
    return [event["delta"] for event in events]


def test_a_session_says_into_which_language_it_translates() -> None:
    client = peer(model="m")
    described = {
        "id": "sess_s1",
        "type": "translation",
        "model": "m",
        "expires_at": 253_402_300_799,  # never
        "audio": {"input": {"transcription": None}, "output": {"language": "de"}},
    }
    assert client.created["session"] == described
    wish = session(transcription={"model": "n", "language": "en"})
    (updated,) = client.ask("session.update", session=wish)
    assert updated["session"]["audio"]["input"]["transcription"]["language"] == "en"
    assert peer().created["session"]["model"] == ""


def test_the_query_may_name_one_language_and_drafts_are_not_read() -> None:
    query = TranslationDialect({"to": "de,fr", "room": "r", "speaker": "Ann"}).query
    assert query == {"room": "r", "speaker": "Ann", "to": "de", "view": "stable"}
    assert TranslationDialect({}).query["to"] == ""


@pytest.mark.parametrize("to", ["", "x" * 99])
def test_a_query_without_a_language_leaves_it_open(to: str) -> None:
    client = peer(to)
    assert client.created["session"]["audio"]["output"]["language"] is None
    client.told(heard("x", final=True))
    assert client.told(final("nichts")) == []


def test_audio_begins_with_the_first_piece() -> None:
    begun, _ = peer().send(APPEND, audio=PIECE)
    assert isinstance(begun, Audio)


def test_an_update_changes_the_language_and_repeats_nothing_that_was_said_before() -> None:
    client = listening()
    wish = session("fr", transcription={"model": "m", "language": "en"}, format={"rate": 16_000})
    want, begun, asked = client.send("session.update", session=wish)
    assert isinstance(want, Want) and (want.langs, want.backfill) == (("fr",), 0)
    assert isinstance(begun, Audio) and (begun.from_, begun.rate) == ("en", 16_000)
    assert isinstance(asked, AskStats)
    assert client.told(final("spät")) == [], "in the former language"
    (updated,) = client.told(stats(asked.ref))
    assert updated["type"] == "session.updated"
    assert updated["session"]["audio"]["output"]["language"] == "fr"
    client.told(heard("x", id="s1-2", final=True))
    assert texts(client.told(final("bonjour", "s1-2", "fr"))) == ["bonjour"]


def test_an_update_without_a_change_is_only_confirmed() -> None:
    client = peer()
    client.send(APPEND, audio=PIECE)
    (updated,) = client.ask("session.update", session=session("de"))
    assert updated["type"] == "session.updated"


def test_a_language_that_is_refused_leaves_the_former_one() -> None:
    client = listening()
    client.send(APPEND, audio=PIECE)
    want, asked = client.send("session.update", session=session("ja"), event_id="mine")
    assert isinstance(want, Want) and isinstance(asked, AskStats)
    refused = Error(code="lang_unsupported", fatal=False, retry=False, msg="No.", ref=want.ref)
    assert client.told(refused)[0]["error"]["event_id"] == "mine"
    assert client.told(stats(asked.ref)) == []
    assert texts(client.told(final("guten Morgen"))) == ["guten Morgen"]


def test_what_is_no_language_is_refused() -> None:
    client = peer()
    client.send("session.update", session=session("x" * 99))
    assert client.refused is not None
    assert client.refused["error"]["code"] == "lang_unsupported"


def test_stable_text_is_appended_and_the_final_adds_its_rest() -> None:
    client = listening()
    assert client.told(source()) == []
    (event,) = client.told(delta("Wir treffen uns"))
    assert event == {
        "type": "session.output_transcript.delta",
        "delta": "Wir treffen uns",
        "elapsed_ms": 2000,
    }
    assert texts(client.told(delta("", reset=True))) == []
    assert texts(client.told(final("Wir treffen uns am Montag."))) == [" am Montag."]


def test_a_final_that_contradicts_what_was_sent_continues_after_what_both_begin_with() -> None:
    client = listening()
    client.told(delta("Wir treffen uns"))
    assert texts(client.told(final("Wir sehen uns."))) == [" sehen uns."]
    client = listening()
    client.told(delta("Guten"))
    assert texts(client.told(final("Gute Nacht."))) == [" Gute Nacht."], "a word of its own"


def test_a_mark_behind_the_last_word_is_appended_without_the_word() -> None:
    client = listening()
    client.told(delta("Wir treffen uns"))
    assert texts(client.told(final("Wir treffen uns, wenn es geht."))) == [", wenn es geht."]


def test_text_that_comes_in_several_pieces_waits_as_a_whole_and_is_sent_once() -> None:
    client = listening("s1-1", "s1-2")
    client.told(source("s1-1"))
    client.told(delta("Wir", "s1-2"))
    client.told(delta(" treffen", "s1-2"))
    client.told(final("Wir treffen uns.", "s1-2"))
    assert texts(client.told(final("Ja.", "s1-1"))) == ["Ja.", " Wir treffen uns."]


def test_captions_come_in_the_order_in_which_they_were_said() -> None:
    client = listening("s1-1", "s1-2", "s1-3")
    for id in ("s1-1", "s1-2", "s1-3"):
        client.told(source(id))
    assert client.told(final("zwei", "s1-2")) == []
    assert client.told(delta("drei", "s1-3")) == []
    assert texts(client.told(final("eins", "s1-1"))) == ["eins", " zwei", " drei"]


def test_captions_of_scripts_without_spaces_are_joined_without_one() -> None:
    client = peer("ja")
    client.told(heard("x", final=True))
    client.told(heard("y", id="s1-2", final=True))
    client.told(final("おはよう。", lang="ja"))
    assert texts(client.told(final("元気?", "s1-2", "ja"))) == ["元気?"]


def test_a_caption_that_fails_is_an_error_and_does_not_hold_up_the_next() -> None:
    client = listening("s1-1", "s1-2")
    client.told(delta("eins", "s1-1"))
    client.told(final("zwei", "s1-2"))
    error, text = client.told(failed("s1-1"))
    assert (error["error"]["code"], error["error"]["type"]) == ("timeout", "server_error")
    assert text["delta"] == " zwei"


@pytest.mark.parametrize("end", [cancelled(), Retracted(seq=2, id="s1-1", ord=1)])
def test_a_caption_that_is_taken_back_does_not_hold_up_the_next(
    end: Cancelled | Retracted,
) -> None:
    client = listening("s1-1", "s1-2")
    client.told(source("s1-1"))
    client.told(final("zwei", "s1-2"))
    assert texts(client.told(end)) == ["zwei"]
    assert client.told(end) == []


def test_what_others_say_in_the_room_is_not_told() -> None:
    client = listening()
    assert client.told(final("fremd", "other-1")) == []
    assert client.told(Presence(readers={}, members=2)) == []


def test_parts_of_a_long_utterance_belong_to_it() -> None:
    client = listening()
    client.told(final("eins", "s1-1"))
    assert texts(client.told(final("zwei", "s1-1.2"))) == [" zwei"]


def test_the_original_is_told_if_the_client_asked_for_its_transcription() -> None:
    client = peer()
    assert client.told(heard("Good", final=True, id="s1-0")) == []
    client.ask("session.update", session=session(transcription={"model": "m"}))
    client.told(heard("Good morning to"))
    (event,) = client.told(heard("Good morning to all"))
    assert event == {
        "type": "session.input_transcript.delta",
        "delta": "Good morning to",
        "elapsed_ms": 2000,
    }
    assert texts(client.told(heard("Good morning to all.", final=True))) == [" all."]
    assert texts(client.told(heard("Yes.", id="s1-2", final=True))) == [" Yes."]


def test_only_the_newest_utterances_are_remembered() -> None:
    client = listening(*(f"s1-{number}" for number in range(KEPT + 1)))
    assert client.told(final("alt", "s1-0")) == []
    assert texts(client.told(final("neu", "s1-1"))) == ["neu"]


def test_close_waits_for_the_last_captions_and_is_then_confirmed() -> None:
    client = listening()
    (bye,) = client.send("session.close")
    assert isinstance(bye, Bye)
    assert texts(client.told(final("eins"))) == ["eins"]
    (closed,) = client.told(stats(bye.ref))
    assert closed["type"] == "session.closed"


def test_an_event_of_the_other_socket_is_refused() -> None:
    client = peer()
    assert client.send("input_audio_buffer.commit") == []
    assert client.refused is not None
    assert client.refused["error"]["code"] == "unknown_type"


def test_an_update_of_the_languages_of_input_alone_changes_only_the_audio() -> None:
    client = peer()
    client.send(APPEND, audio=PIECE)
    wish = session(transcription={"model": "m", "language": "en"})
    begun, asked = client.send("session.update", session=wish)
    assert isinstance(begun, Audio) and isinstance(asked, AskStats)
    assert (begun.from_, begun.ref) == ("en", asked.ref)
    (asked,) = client.send("session.update", session=session(transcription=None))
    assert isinstance(asked, AskStats)


def test_a_client_without_a_language_keeps_none_if_the_first_one_is_refused() -> None:
    client = peer("")
    want, *_ = client.send("session.update", session=session("ja"))
    assert isinstance(want, Want)
    client.told(Error(code="lang_unsupported", fatal=False, retry=False, msg="No.", ref=want.ref))
    client.told(heard("x", final=True))
    assert client.told(final("x")) == []


def test_an_error_about_the_close_names_its_event() -> None:
    client = peer()
    (bye,) = client.send("session.close", event_id="mine")
    assert isinstance(bye, Bye)
    refused = Error(code="rate", fatal=False, retry=True, msg="Too many frames.")
    assert client.told(refused)[0]["error"]["event_id"] == "mine"


def test_the_close_is_confirmed_without_a_session() -> None:
    client = peer()
    (bye,) = client.send("session.close")
    assert isinstance(bye, Bye)
    assert client.told(stats(bye.ref)) == [{"type": "session.closed"}]


def test_refusals_that_a_client_does_not_read_keep_no_audio() -> None:
    dialect = TranslationDialect({"to": "de"})
    event = '{"type":"input_audio_buffer.append","audio":"%s"}' % ("AAAA" * 10_000)
    dialect.receive(event)
    tracemalloc.start()
    try:
        for _ in range(100):
            dialect.receive(event)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 200_000
