"""The frames that a client may send, and the errors of the others."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from gateway.auth.permissions import Role
from gateway.core.base.validation import Detect, clean, usual
from gateway.core.session.session import _ACTIONS
from gateway.engines.profiles import Profile
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.codec import HELP, Codec
from gateway.protocol.messages import (
    REQUESTS,
    Edited,
    Final,
    Retract,
    Say,
    Settings,
    Snapshot,
    Source,
)
from gateway.protocol.notices import Help, Stats, Tick
from tests.support.meeting import NOW, Meeting, assert_error, client, meeting, names, one, only

# --- say ------------------------------------------------------------------------------------------


def test_a_typed_line_is_said_in_the_language_of_the_socket() -> None:
    peer = Meeting().enter("en", lang="de")
    events = peer.frame("guten Morgen")
    assert one(Source, events).lang == "de"
    assert one(Source, events).text == "guten Morgen"


@pytest.mark.parametrize(
    "text", ["", "   ", "\n\t", "\u200b", "\ufeff\u2060", "\x00\x07", "\u2028"]
)
def test_text_without_anything_to_say_is_empty(text: str) -> None:
    peer = client("de")
    assert_error(peer.say(text), ErrorCode.EMPTY_TEXT)
    assert_error(peer.frame(text), ErrorCode.EMPTY_TEXT)


def test_a_lone_surrogate_in_a_typed_line_is_nothing_to_say() -> None:
    peer = client("de")
    assert_error(peer.frame("\ud800"), ErrorCode.EMPTY_TEXT)
    assert one(Source, peer.frame("a\udc00b")).text == "a b"


@pytest.mark.parametrize(
    ("said", "cleaned"),
    [
        ("  hello \n", "hello"),
        ("one\ntwo\r\nthree", "one two  three"),
        ("bell\x07", "bell"),
        ("cafe\u0301", "caf\u00e9"),
        ("\U0001f469\u200d\U0001f4bb", "\U0001f469\u200d\U0001f4bb"),
        ("line\u2028paragraph\u2029", "line paragraph"),
        ("\u202enna\u202c is here", "nna  is here"),
        ("\u2067שלום\u2069", "\u2067שלום\u2069"),
        ("!", "!"),
        ("\u0301", "\u0301"),
    ],
)
def test_text_is_normalised_and_control_characters_become_spaces(said: str, cleaned: str) -> None:
    assert clean(said) == cleaned


def test_text_over_the_limit_is_too_long_and_text_at_the_limit_is_not() -> None:
    peer = client(text=10)
    assert_error(peer.say("x" * 11), ErrorCode.TOO_LONG)
    assert names(peer.say("x" * 10)) == ["ack", "source"]


def test_a_language_that_the_engine_does_not_have_is_named_with_those_it_has() -> None:
    peer = client("de")
    for lang in ("tlh", "sw", "not a language", ""):
        error = assert_error(peer.say("hello", lang=lang), ErrorCode.LANG_UNSUPPORTED)
        assert error.hint
    assert peer.meeting.room.log.seq == 0


def test_the_languages_there_are_stand_in_the_hint() -> None:
    error = assert_error(client().say("a", lang="sw"), ErrorCode.LANG_UNSUPPORTED)
    assert error.hint == "It has: en, de, fr, es."


def test_a_language_is_understood_however_it_is_spelt() -> None:
    peer = client()
    for lang in ("DE", "de_AT", "deu"):
        assert one(Source, peer.say("hallo", lang=lang)).lang.startswith("de")


def test_more_utterances_in_flight_than_allowed_are_busy_and_revisions_are_not_more() -> None:
    peer = client("de", inflight=2)
    peer.say("one", id="x", final=False)
    peer.say("two")
    error = assert_error(peer.say("three", ref="r"), ErrorCode.BUSY)
    assert (error.retry, error.retry_ms, error.ref) == (True, 1000, "r")
    assert names(peer.say("one more", id="x")) == ["ack", "source"]
    peer.meeting.finish_all()
    peer.events()
    assert names(peer.say("three")) == ["ack", "source"]


def test_a_refused_frame_leaves_other_utterances_untouched() -> None:
    peer = client("de")
    peer.say("hello")
    for frame in ("{", b"\xc1", '{"type":"nope"}', '{"type":"say","text":"","id":"u1"}'):
        peer.frame(frame)
    peer.meeting.finish_all()
    assert one(Final, peer.events()).text == "[de] hello"


def test_the_speakers_name_goes_along_with_what_is_said() -> None:
    peer = Meeting().enter(speaker="Ada\n")
    assert one(Source, peer.say("a")).speaker == "Ada"
    assert one(Source, peer.say("b", speaker="Bob")).speaker == "Bob"
    assert one(Source, peer.say("c", speaker="\n")).speaker == "Ada"
    peer.send("set", speaker="Eve")
    assert one(Source, peer.say("d")).speaker == "Eve"
    peer.send("set", speaker="")
    assert one(Source, peer.say("e")).speaker is None


def test_what_is_said_without_a_name_has_no_speaker() -> None:
    assert one(Source, client("de").say("hello")).speaker is None


def test_without_a_detector_auto_is_refused() -> None:
    assert_error(client().say("a", lang="auto"), ErrorCode.LANG_UNSUPPORTED)


def detector(tongues: dict[str, str]) -> Detect:
    return lambda text, among: tongues.get(text)


def test_a_detector_tells_the_language_of_each_utterance() -> None:
    tongue = {"hallo": "de", "hello": "en"}
    peer = Meeting().enter(lang="auto", detect=detector(tongue))
    assert one(Source, peer.say("hallo")).lang == "de"
    assert one(Source, peer.say("hello")).lang == "en"
    assert one(Source, peer.say("bonjour", lang="fr")).lang == "fr"
    peer.send("set", **{"from": "es"})
    assert one(Source, peer.say("hallo")).lang == "es"
    assert one(Settings, peer.send("set", **{"from": "auto"})).from_ == "auto"
    assert one(Source, peer.say("hallo")).lang == "de"


def test_text_without_a_certain_language_is_in_the_language_detected_last() -> None:
    peer = Meeting().enter(lang="auto", detect=detector({"hallo": "de"}))
    assert one(Source, peer.say("42")).lang == "en"
    peer.say("hallo")
    assert one(Source, peer.say("42")).lang == "de"


def test_a_language_that_cannot_be_translated_is_not_assumed_of_the_next_text() -> None:
    peer = Meeting().enter(lang="auto", detect=detector({"hallo": "de", "привет": "ru"}))
    peer.say("hallo")
    assert one(Source, peer.say("привет")).lang == "ru"
    assert one(Source, peer.say("42")).lang == "de"


def test_a_speaker_of_several_languages_is_heard_in_one_of_them() -> None:
    asked = []

    def detect(text: str, among: Sequence[str] = (), /) -> str | None:
        asked.append(tuple(among))
        return {"hallo": "de", "hello": "en"}.get(text)

    peer = Meeting().enter(lang="de,fr", detect=detect)
    assert one(Source, peer.say("42")).lang == "de", "the first, until another is detected"
    assert one(Source, peer.say("hello", lang="en,fr")).lang == "en"
    assert one(Source, peer.say("42")).lang == "de", "the last one is not among them"
    assert asked == [("de", "fr"), ("en", "fr"), ("de", "fr")]


def test_without_a_detector_a_speaker_of_several_languages_speaks_the_first() -> None:
    assert one(Source, Meeting().enter(lang="fr,de").say("hallo")).lang == "fr"


def test_a_speaker_of_whom_nothing_is_known_speaks_english_where_the_model_has_it() -> None:
    assert usual(Profile(name="a", kind="raw", languages=("de", "en"))) == "en"
    assert usual(Profile(name="b", kind="raw", languages=("fr", "de"))) == "fr"


def test_a_draining_session_accepts_revisions_and_nothing_new() -> None:
    peer = client("de", inflight=1)
    peer.say("one", id="x", rev=1)
    assert names(peer.say("one", id="x", rev=1)) == ["ack"]
    peer.session.drain()
    assert names(peer.say("one", id="x", rev=1)) == ["ack"]
    assert_error(peer.say("two"), ErrorCode.BUSY)


# --- edit -----------------------------------------------------------------------------------------


def test_a_correction_is_text_like_any_other() -> None:
    peer = client("de", text=10)
    peer.say("hello", id="x")
    peer.meeting.finish_all()
    peer.events()
    assert_error(peer.send("edit", id="x", lang="de", text="x" * 11), ErrorCode.TOO_LONG)
    assert_error(peer.send("edit", id="x", lang="de", text=" \n"), ErrorCode.EMPTY_TEXT)
    assert_error(peer.send("edit", id="x", lang="?", text="a"), ErrorCode.LANG_UNSUPPORTED)
    edited = one(Edited, peer.send("edit", id="x", lang="DE", text=" cafe\u0301 "))
    assert (edited.lang, edited.text) == ("de", "caf\u00e9")


# --- want -----------------------------------------------------------------------------------------


def test_a_socket_reads_what_it_wants_from_now_on() -> None:
    peer = client("de")
    assert peer.send("want", langs=["fr", "FR", "es"], view="final") == []
    assert (peer.session.member.langs, peer.session.member.view) == (("fr", "es"), "final")
    peer.send("want", langs=[])
    assert (peer.session.member.langs, peer.session.member.view) == ((), "final")


def test_the_languages_that_exist_are_read_though_others_do_not() -> None:
    peer = client("de")
    error = assert_error(
        peer.send("want", langs=["fr", "tlh", "???"], ref="w"), ErrorCode.LANG_UNSUPPORTED
    )
    assert error.ref == "w"
    assert "'tlh', '???'" in error.msg
    assert peer.session.member.langs == ("fr",)


def test_a_want_with_unknown_languages_only_changes_nothing() -> None:
    peer = client("de")
    assert_error(peer.send("want", langs=["tlh"]), ErrorCode.LANG_UNSUPPORTED)
    assert peer.session.member.langs == ("de",)


def test_ten_thousand_languages_are_too_many() -> None:
    peer = client("de")
    peer.say("hello")
    many = ["de"] * 10_000
    assert_error(peer.send("want", langs=many), ErrorCode.TOO_MANY_TARGETS)
    assert_error(peer.send("cancel", id="u1", langs=many), ErrorCode.TOO_MANY_TARGETS)
    assert peer.session.member.langs == ("de",)
    assert len(peer.meeting.jobs) == 1


def test_a_language_that_can_only_be_spoken_can_be_read_too() -> None:
    profile = Profile(name="one-way", kind="raw", languages=("de", "en"), pairs=(("de", "en"),))
    peer = Meeting(model=profile).enter("de", "en", lang="de")
    assert one(Final, peer.say("hallo")).by == "same"


# --- roles ----------------------------------------------------------------------------------------


def test_a_viewer_only_reads() -> None:
    room = Meeting()
    viewer = room.enter("de", role=Role.VIEW)
    assert_error(viewer.say("a"), ErrorCode.FORBIDDEN)
    assert_error(viewer.frame("a"), ErrorCode.FORBIDDEN)
    assert_error(viewer.send("set", context="a"), ErrorCode.FORBIDDEN)
    room.enter().say("hello")
    viewer.events()
    assert_error(viewer.send("cancel", id="u1"), ErrorCode.FORBIDDEN)
    assert_error(viewer.send("edit", id="u1", lang="de", text="hallo"), ErrorCode.FORBIDDEN)
    assert_error(viewer.send("retract", id="u1"), ErrorCode.FORBIDDEN)
    assert viewer.send("want", langs=["fr"]) == []
    assert one(Stats, viewer.send("stats")).errors == 6


def test_a_viewer_is_told_what_it_cannot_do_and_not_which_utterances_exist() -> None:
    viewer = Meeting().enter("de", role=Role.VIEW)
    frames: tuple[tuple[str, dict[str, str]], ...] = (
        ("say", {"text": "hello"}),
        ("set", {"context": "a court"}),
        ("edit", {"id": "none", "lang": "de", "text": "hallo"}),
        ("retract", {"id": "none"}),
    )
    for type, fields in frames:
        error = assert_error(viewer.send(type, **fields), ErrorCode.FORBIDDEN)
        assert f"cannot {type}." in error.msg


def test_a_language_that_is_wanted_later_is_shown_as_far_back_as_was_asked_for() -> None:
    room = Meeting()
    speaker = room.enter("de")
    for id in ("a", "b", "c"):
        speaker.say("hello", id=id)
        room.finish_all()
    for most, ids in ((1, ["c"]), (2, ["b", "c"])):
        reader = room.enter()
        events = reader.send("want", langs=["de"], backfill=most)
        assert [event.id for event in only(Snapshot, events)] == ids


# --- set ------------------------------------------------------------------------------------------


def test_settings_are_told_as_they_were_understood() -> None:
    peer = client()
    settings = one(
        Settings,
        peer.send(
            "set",
            **{"from": "DE_at"},
            context=" a\nstand-up ",
            glossary={" cafe\u0301 ": "Kaffee", "\u200b": "x", "y": " "},
            speaker=" Ada ",
        ),
    )
    assert settings.from_ == "de-AT"
    assert settings.context == "a stand-up"
    assert settings.glossary == {"caf\u00e9": "Kaffee"}
    assert settings.speaker == "Ada"
    assert peer.session.spoken.stated == "de-AT"


def test_a_set_that_is_refused_changes_nothing() -> None:
    peer = client()
    assert_error(peer.send("set", **{"from": "tlh"}, context="x"), ErrorCode.LANG_UNSUPPORTED)
    assert (peer.session.spoken.stated, peer.meeting.room.translation_context.topic) == (
        "en",
        "",
    )


# --- answers --------------------------------------------------------------------------------------


def test_a_snapshot_has_the_ref_of_its_request() -> None:
    peer = client("de")
    peer.say("hello", id="a")
    assert one(Snapshot, peer.send("get", id="a", ref="r")).ref == "r"


def test_the_time_in_the_stats_is_in_milliseconds() -> None:
    peer = client()
    assert peer.session.stats(NOW + 1.23456).seconds == 1.235


def test_help_lists_every_type_in_one_line() -> None:
    assert one(Help, client().send("help", ref="h")) == Help(types=HELP, ref="h")


def test_an_unknown_utterance_is_not_found() -> None:
    error = assert_error(client().send("get", id="nope", ref="g"), ErrorCode.NOT_FOUND)
    assert (error.id, error.ref) == ("nope", "g")


def test_stats_count_what_this_socket_did() -> None:
    peer = client("de")
    peer.say("one")
    peer.say("two")
    peer.say("three")
    peer.say("four")
    peer.meeting.finish(peer.meeting.job("de", "one"), "eins")
    peer.meeting.fail(peer.meeting.job("de", "two"))
    peer.send("cancel", id="u3")
    peer.frame("{")
    peer.meeting.now += 2.5
    sent = peer.session.outbox.frames, peer.session.outbox.sent
    stats = one(Stats, peer.send("stats", ref="s"))
    assert (stats.said, stats.finals, stats.failed, stats.cancelled) == (4, 1, 1, 1)
    assert (stats.errors, stats.frames_in, stats.inflight, stats.seconds) == (1, 7, 1, 2.5)
    assert (stats.frames_out, stats.bytes_out) == sent
    assert stats.ref == "s"


def test_a_heartbeat_tells_where_the_log_stands() -> None:
    peer = client()
    peer.say("hello")
    peer.session.tick(NOW)
    assert peer.events() == [Tick(seq=1)]


def test_both_encodings_are_understood_on_one_socket() -> None:
    peer = client()
    assert names(peer.frame(msgspec.msgpack.encode({"type": "say", "text": "a"}))) == [
        "ack",
        "source",
    ]
    assert names(peer.frame('{"type":"say","text":"b"}')) == ["ack", "source"]


def test_a_person_without_a_client_types_lines_and_reads_captions() -> None:
    peer = Meeting().enter("de", codec=Codec.PLAIN)
    peer.session.receive("good morning", NOW)
    peer.session.receive("", NOW)
    peer.meeting.act()
    peer.meeting.finish_all()
    assert peer.session.outbox.take() == [
        "! The text is empty. Say at least one word.",
        "[de] [de] good morning",
    ]


def test_a_message_of_the_gateway_itself_has_no_rate_and_raises_its_fault() -> None:
    room, peer = meeting("de", rate=1.0, burst=1)
    for n in range(3):
        peer.session.perform(Say(text=f"text {n}"), room.now)
    with pytest.raises(ClientFault):
        peer.session.perform(Retract(id="nothing"), room.now)


def test_every_message_of_a_client_has_an_action() -> None:
    assert set(_ACTIONS) == set(REQUESTS)
