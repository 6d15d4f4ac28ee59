"""OpenAI's realtime transcription in the messages of the gateway."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocol.audio import Audio
from gateway.protocol.messages import Ack, AskStats, Cancel, Cancelled, Set
from gateway.protocol.notices import Error
from gateway.server.realtime.dialect import ServerEvent
from gateway.server.realtime.transcription import TranscriptionDialect
from tests.server.realtime.talk import PIECE, Peer, ended, heard, stats

APPEND, COMMIT, CLEAR = (f"input_audio_buffer.{name}" for name in ("append", "commit", "clear"))
ITEM = "conversation.item.input_audio_transcription"


def peer(query: dict[str, str] | None = None, room: str = "~demo") -> Peer:
    return Peer(TranscriptionDialect(query or {}), room)


def manual(**wish: object) -> Peer:
    """Return a client that ends its utterances itself."""
    client = peer()
    client.ask("session.update", session=session(turn_detection=None, **wish))
    return client


def session(**wish: object) -> dict[str, Any]:
    return {"type": "transcription", "audio": {"input": wish}}


def types(events: list[ServerEvent]) -> list[str]:
    return [event["type"].removeprefix("input_audio_buffer.").replace(ITEM, "") for event in events]


def deltas(events: list[ServerEvent]) -> list[str]:
    return [event["delta"] for event in events if event["type"] == f"{ITEM}.delta"]


def test_a_session_is_created_with_server_side_turn_detection_and_24_khz() -> None:
    created = peer({"model": "m", "intent": "transcription"}).created
    assert created["type"] == "session.created"
    assert created["session"] == {
        "id": "sess_s1",
        "object": "realtime.transcription_session",
        "type": "transcription",
        "expires_at": 253_402_300_799,  # never
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24_000},
                "transcription": {"model": "m"},
                "turn_detection": {"type": "server_vad"},
            }
        },
    }


def test_the_query_keeps_room_and_speaker_and_reads_no_translation() -> None:
    query = {"room": "r", "speaker": "Ann", "intent": "transcription", "to": "de"}
    assert TranscriptionDialect(query).query == {"room": "r", "speaker": "Ann", "to": ""}


def test_the_first_piece_of_audio_begins_audio() -> None:
    client = peer()
    begun, piece = client.send(APPEND, audio=PIECE)
    assert isinstance(begun, Audio)
    assert (begun.codec, begun.rate, begun.from_) == ("pcm_s16le", 24_000, None)
    assert piece == b"\x01\x02" * 240
    assert client.send(APPEND, audio=PIECE) == [piece]


def test_the_query_may_name_the_language_that_is_spoken() -> None:
    begun, _ = peer({"from": "de"}).send(APPEND, audio=PIECE)
    assert isinstance(begun, Audio) and begun.from_ == "de"


def test_a_session_update_names_the_language_and_is_confirmed_when_all_of_it_is_done() -> None:
    client = peer()
    wish = session(transcription={"model": "m", "language": "en"})
    begun, asked = client.send("session.update", session=wish, event_id="mine")
    assert isinstance(begun, Audio) and isinstance(asked, AskStats)
    assert begun.from_ == "en" and begun.ref == asked.ref
    (updated,) = client.told(stats(asked.ref))
    assert updated["type"] == "session.updated"
    assert updated["session"]["audio"]["input"]["transcription"]["language"] == "en"
    assert client.told(stats(asked.ref)) == []


def test_the_older_update_is_confirmed_under_its_older_name() -> None:
    wish = {
        "input_audio_format": "pcm16",
        "input_audio_transcription": {"model": "m", "language": "de"},
        "turn_detection": {"type": "server_vad", "threshold": 0.5},
    }
    client = peer()
    (updated,) = client.ask("transcription_session.update", session=wish)
    assert updated["type"] == "transcription_session.updated"
    assert updated["session"]["audio"]["input"]["transcription"]["language"] == "de"


def test_several_languages_restrict_what_is_recognised() -> None:
    wish = session(transcription={"languages": ["en", "de"]})
    (begun, _) = peer().send("session.update", session=wish)
    assert isinstance(begun, Audio) and begun.from_ == "en,de"


def test_an_update_that_changes_no_audio_does_not_interrupt_it() -> None:
    client = peer()
    client.send("session.update", session=session(transcription={"language": "en"}))
    wish = session(transcription=None, noise_reduction={"type": "near_field"})
    (asked,) = client.send("session.update", session=wish)
    assert isinstance(asked, AskStats)


def test_prompt_and_keywords_become_topic_and_glossary_of_the_private_room() -> None:
    wish = session(transcription={"prompt": "Weekly sync", "keywords": ["Kubernetes"]})
    client = peer()
    told, _, _ = client.send("session.update", session=wish)
    assert isinstance(told, Set)
    assert (told.context, told.glossary) == ("Weekly sync", {"Kubernetes": "Kubernetes"})
    assert len(client.send("session.update", session=wish)) == 1, "nothing has changed"


def test_topic_and_glossary_of_a_shared_room_are_left_alone() -> None:
    wish = session(transcription={"prompt": "Weekly sync"})
    assert len(peer(room="demo").send("session.update", session=wish)) == 2


def test_a_refused_update_is_answered_by_one_error_that_names_the_event() -> None:
    client = peer()
    wish = session(transcription={"language": "tlh"})
    begun, asked = client.send("session.update", session=wish, event_id="mine")
    assert isinstance(begun, Audio) and isinstance(asked, AskStats)
    refused = Error(
        code="lang_unsupported", fatal=False, retry=False, msg="No.", hint="Try en.", ref=begun.ref
    )
    (told,) = client.told(refused)
    assert told["type"] == "error"
    assert told["error"] == {
        "type": "invalid_request_error",
        "code": "lang_unsupported",
        "message": "No. Try en.",
        "param": None,
        "event_id": "mine",
    }
    assert client.told(stats(asked.ref)) == []
    assert isinstance(client.send(APPEND, audio=PIECE)[0], Audio), "audio begins anew"


@pytest.mark.parametrize("format", ["audio/pcmu", "g711_ulaw"])
def test_other_codecs_than_pcm_are_refused(format: str) -> None:
    client = peer()
    older = not format.startswith("audio/")
    wish = {"input_audio_format": format} if older else session(format={"type": format})
    client.send("session.update", session=wish, event_id="mine")
    assert client.refused is not None
    assert client.refused["error"]["code"] == "audio_unsupported"
    assert client.refused["error"]["event_id"] == "mine"


def test_another_rate_is_passed_on() -> None:
    client = peer()
    (begun, _) = client.send("session.update", session=session(format={"rate": 16_000}))
    assert isinstance(begun, Audio) and begun.rate == client.dialect.rate == 16_000


@pytest.mark.parametrize("rate", [0, -24_000, 10**400])
def test_a_rate_that_no_audio_has_is_refused_and_changes_nothing(rate: int) -> None:
    client = peer()
    wish = session(format={"rate": rate})
    assert client.send("session.update", session=wish, event_id="mine") == []
    assert client.refused is not None and client.refused["error"]["event_id"] == "mine"
    (begun, audio) = client.send(APPEND, audio=PIECE)
    assert isinstance(begun, Audio) and begun.rate == 24_000 and isinstance(audio, bytes)


def test_an_utterance_is_an_item_that_grows_only_at_its_end() -> None:
    client = peer()
    first = client.told(heard("We meat"))
    assert types(first) == ["speech_started"]
    assert first[0]["audio_start_ms"] == 500
    assert deltas(client.told(heard("We meet again"))) == ["We"]
    assert deltas(client.told(heard("We meet again on"))) == [" meet again"]
    assert client.told(heard("We meet again in turn")) == []
    last = client.told(heard("We meet again on Thursday.", final=True))
    assert types(last) == [".delta", "speech_stopped", "committed", ".completed"]
    assert deltas(last) == [" on Thursday."]
    assert last[-1]["transcript"] == "We meet again on Thursday."
    assert last[-1]["languages"] == [{"code": "en"}]
    assert last[-1]["usage"] == {"type": "duration", "seconds": 1.5}
    assert last[1]["audio_end_ms"] == 2000
    assert {event["item_id"] for event in (*first, *last)} == {"item_1"}
    (_, _, committed, _) = client.told(heard("Yes.", final=True, id="s1-2"))[1:]
    assert committed["previous_item_id"] == "item_1"


def test_an_utterance_that_was_nothing_completes_its_item_without_text() -> None:
    client = peer()
    client.told(heard("Thanks for watching"))
    last = client.told(heard("", final=True))
    assert types(last) == ["speech_stopped", "committed", ".completed"]
    assert last[-1]["transcript"] == ""


def test_a_withdrawn_utterance_completes_its_item_without_text() -> None:
    client = peer()
    client.told(heard("Thanks"))
    (_, completed) = client.told(Cancelled(id="s1-1", rev=1, was="running"))
    assert completed["transcript"] == ""
    assert client.told(Cancelled(id="s1-1", rev=1, was="none")) == []


def test_a_commit_ends_the_audio_and_the_next_piece_continues_its_clock() -> None:
    client = peer()
    client.send(APPEND, audio=PIECE)
    (end,) = client.send(COMMIT)
    assert isinstance(end, Audio) and end.codec == "none"
    client.told(ended(end.ref))
    begun, _ = client.send(APPEND, audio=PIECE)
    assert isinstance(begun, Audio) and begun.t0 == 0.01


def test_without_turn_detection_all_until_a_commit_is_one_item() -> None:
    client = manual()
    assert deltas(client.told(heard("Good morning.", final=True))) == ["Good morning."]
    client.told(heard("How are"))
    client.told(heard("How are you", id="s1-2"))
    assert deltas(client.told(heard("How are you?", id="s1-2", final=True))) == [" How are you?"]
    committed, completed = client.ask(COMMIT)
    assert committed["type"] == "input_audio_buffer.committed"
    assert completed["transcript"] == "Good morning. How are How are you?"


def test_texts_of_scripts_without_spaces_are_joined_without_one() -> None:
    client = manual()
    client.told(heard("おはよう。", lang="ja", final=True))
    client.told(heard("元気?", lang="ja", final=True, id="s1-2"))
    (_, completed) = client.ask(COMMIT)
    assert completed["transcript"] == "おはよう。元気?"


def test_a_withdrawn_utterance_is_no_part_of_what_a_client_commits() -> None:
    client = manual()
    client.told(heard("Good morning.", final=True))
    client.told(heard("Thanks", id="s1-2"))
    assert client.told(Cancelled(id="s1-2", rev=1, was="running")) == []
    (_, completed) = client.ask(COMMIT)
    assert completed["transcript"] == "Good morning."


def test_a_commit_without_speech_is_answered_by_an_empty_item() -> None:
    client = peer()
    committed, completed = client.ask(COMMIT)
    assert (committed["item_id"], completed["transcript"]) == ("item_1", "")


def test_a_commit_after_the_gateway_has_ended_the_utterance_adds_no_item() -> None:
    client = peer()
    client.told(heard("Yes.", final=True))
    assert client.ask(COMMIT) == []
    assert len(client.ask(COMMIT)) == 2, "which is a commit of its own"


def test_clear_drops_what_was_heard_and_what_is_still_being_recognised() -> None:
    client = peer()
    client.send(APPEND, audio=PIECE)
    client.told(heard("Scratch"))
    cancel, end = client.send(CLEAR)
    assert isinstance(cancel, Cancel) and isinstance(end, Audio)
    assert cancel.id == "s1-1"
    assert client.told(heard("Scratch that", final=True, id="s1-2")) == []
    (cleared,) = client.told(ended(end.ref))
    assert cleared["type"] == "input_audio_buffer.cleared"
    assert types(client.told(heard("Yes", id="s1-3"))) == ["speech_started"]


def test_clear_before_anything_was_heard_cancels_nothing() -> None:
    (cleared,) = peer().ask(CLEAR)
    assert cleared["type"] == "input_audio_buffer.cleared"


def test_a_text_that_the_room_refused_is_a_failed_item_and_no_end_of_the_session() -> None:
    client = peer()
    client.told(heard("Yes.", final=True))
    busy = Error(code="busy", fatal=False, retry=True, id="s1-1", msg="Too many.", hint="Wait.")
    (failed,) = client.told(busy)
    assert failed["type"] == f"{ITEM}.failed"
    place = {"item_id": "item_1", "content_index": 0}
    why = {"type": "server_error", "code": "busy", "message": "Too many. Wait.", "param": None}
    assert failed == {"type": f"{ITEM}.failed", **place, "error": {**why, "event_id": None}}


def test_events_of_the_room_are_not_told() -> None:
    assert peer().told(Ack(id="s1-1", rev=1, ord=1)) == []
    assert peer().told(ended(None)) == []


def test_the_messages_of_jitsis_transcriber_proxy_are_understood() -> None:
    """The shape of the messages of opus-transcriber-proxy, by its public sources."""
    client = peer()
    wish: dict[str, Any] = {
        "format": {"type": "audio/pcm", "rate": 24_000},
        "noise_reduction": {"type": "near_field"},
        "transcription": {"model": "gpt-4o-transcribe", "language": "en", "prompt": "Budget"},
        "turn_detection": {
            "type": "server_vad",
            "threshold": 0.5,
            "prefix_padding_ms": 300,
            "silence_duration_ms": 500,
        },
    }
    logprobs = "item.input_audio_transcription.logprobs"
    for prompt in ("Budget", "Budget of the city"):  # it may be changed at any time
        wish["transcription"]["prompt"] = prompt
        updated = client.ask("session.update", session={**session(**wish), "include": [logprobs]})
        assert types(updated) == ["session.updated"]
    client.send(APPEND, audio=PIECE)
    events = client.told(heard("We meet")) + client.told(heard("We meet on Monday.", final=True))
    assert "".join(deltas(events)) == "We meet on Monday."
    completed = events[-1]
    assert completed["type"] == "conversation.item.input_audio_transcription.completed"
    assert completed["transcript"] == "We meet on Monday."
    assert client.ask(COMMIT) == [], "an idle speaker is committed once more"
    assert client.refused is None


def test_a_change_of_topic_is_answered_with_the_update_that_asked_for_it() -> None:
    client = peer()
    client.send(APPEND, audio=PIECE)
    wish = session(transcription={"prompt": "Weekly sync"})
    told, asked = client.send("session.update", session=wish)
    assert isinstance(told, Set) and isinstance(asked, AskStats)
    assert told.ref == asked.ref is not None


def test_every_item_has_an_id_and_every_text_its_place() -> None:
    client = peer()
    for number in (1, 2, 3):
        (_, text, *_) = client.told(heard("Yes.", final=True, id=f"s1-{number}"))
        assert (text["item_id"], text["content_index"]) == (f"item_{number}", 0)
