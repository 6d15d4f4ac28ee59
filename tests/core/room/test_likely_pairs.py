"""The pairs that an engine is told of before anybody has spoken."""

from __future__ import annotations

from gateway.auth.permissions import Role
from gateway.core.base.validation import AUTO
from gateway.engines.profiles import Profile
from tests.support.fleet import FleetMeeting
from tests.support.meeting import Meeting


def test_a_reader_has_its_pair_prepared_before_anybody_speaks() -> None:
    room = Meeting()
    speaker = room.enter(lang="en")
    assert room.prepared == []
    room.enter("de", "en", role=Role.VIEW, lang="fr")
    assert room.prepared == [("en", "de")], "nobody speaks French, and English needs no model"
    speaker.send("want", langs=["es"])
    assert room.prepared == [("en", "de"), ("en", "es")]


def test_a_speaker_has_the_pairs_of_all_readers_prepared() -> None:
    room = Meeting()
    room.enter("de", "fr", lang=AUTO)
    assert room.prepared == [], "nobody knows the language yet"
    speaker = room.enter(lang="es,en-GB")
    assert sorted(room.prepared) == [("en", "de"), ("en", "fr"), ("es", "de"), ("es", "fr")]
    room.prepared.clear()
    speaker.send("set", **{"from": "fr"})
    speaker.send("set", context="A walk in the hills.")
    assert room.prepared == [("fr", "de")]


def test_a_pair_that_the_model_lacks_is_not_prepared() -> None:
    pairs = (("en", "de"), ("de", "fr"))
    room = Meeting(model=Profile(name="p", kind="raw", languages=("en", "de", "fr"), pairs=pairs))
    room.enter("de", "fr", lang="en")
    assert room.prepared == [("en", "de")]


def test_pairs_of_members_of_several_gateways_are_prepared() -> None:
    room = FleetMeeting("en", "de", "fr")
    room.enter(lang="fr")
    room.enter("de", lang="fr", role=Role.VIEW)
    room.pump()
    assert room.prepared == [("fr", "de")]
