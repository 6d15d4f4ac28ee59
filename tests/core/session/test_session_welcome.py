"""The first frame of a session."""

from __future__ import annotations

from gateway.auth.permissions import Role
from gateway.engines.profiles import Profile
from gateway.engines.profiles.profile import TemplateBlock
from gateway.limits import Limits
from gateway.protocol.fields import RoomSettings
from gateway.protocol.messages import (
    Welcome,
)
from gateway.protocol.notices import Degraded, Error
from tests.support.meeting import Meeting, names, one

# --- the beginning --------------------------------------------------------------------------------


def test_the_first_frame_is_a_welcome_that_says_what_may_be_sent() -> None:
    peer = Meeting(limits=Limits(text=7)).enter("de", greeted=False)
    (welcome,) = peer.events()
    assert isinstance(welcome, Welcome)
    assert (welcome.v, welcome.session, welcome.room, welcome.epoch) == (
        1,
        "s1",
        "meeting",
        "epoch",
    )
    assert (welcome.engine, welcome.languages) == ("by hand", ("en", "de", "fr", "es"))
    assert (welcome.limits.text, welcome.resume, welcome.hint) == (7, None, None)


def test_a_socket_that_reads_no_language_is_told_how_to() -> None:
    welcome = one(Welcome, Meeting().enter(greeted=False).events())
    assert welcome.hint is not None and '"want"' in welcome.hint


def test_the_welcome_has_the_token_with_which_the_session_can_be_resumed() -> None:
    peer = Meeting().enter("de", token="secret", greeted=False)
    assert one(Welcome, peer.events()).resume == "secret"


def test_a_socket_that_enters_an_overloaded_room_is_told_so_after_its_welcome() -> None:
    room = Meeting()
    room.room.degrade(Degraded(partials="off"), room.now)
    events = room.enter("de", greeted=False).events()
    assert names(events)[:2] == ["welcome", "degraded"]
    assert one(Degraded, events) == Degraded(partials="off")


def test_the_welcome_lists_the_pairs_that_are_impossible() -> None:
    pairs = (("en", "de"), ("en", "fr"), ("de", "en"))
    model = Profile(name="few", kind="raw", languages=("en", "de", "fr"), pairs=pairs)
    welcome = one(Welcome, Meeting(model=model).enter("de", greeted=False).events())
    assert welcome.impossible == {"de": ("fr",)}
    assert one(Welcome, Meeting().enter("de", greeted=False).events()).impossible is None


def test_those_who_may_change_settings_are_welcomed_with_the_present_ones() -> None:
    meeting = Meeting()
    glossary = {"sprint": {"de": "Etappe"}}
    meeting.enter().send("set", context="a stand-up", glossary=glossary)
    speaker = meeting.enter("de", role=Role.SPEAK, greeted=False)
    reader = meeting.enter("de", role=Role.VIEW, greeted=False)
    settings = one(Welcome, speaker.events()).settings
    assert settings == RoomSettings(version=1, context="a stand-up", glossary=glossary)
    assert one(Welcome, reader.events()).settings is None


def test_the_welcome_tells_whether_the_model_is_told_the_glossary() -> None:
    told = Profile(name="told", kind="raw", template=(TemplateBlock("{glossary}{text}"),))
    for model, expected in ((told, True), (Profile(name="plain", kind="raw"), False)):
        welcome = one(Welcome, Meeting(model=model).enter(greeted=False).events())
        assert welcome.glossary is expected


def test_a_language_in_the_address_that_does_not_exist_is_named_after_the_welcome() -> None:
    room = Meeting()
    peer = room.enter("de", "tlh", greeted=False)
    assert names(events := peer.events()) == ["welcome", "error"]
    error = one(Error, events)
    assert (error.code, error.ref) == ("lang_unsupported", None)
    assert "'tlh'" in error.msg
    assert peer.session.member.langs == ("de",)
