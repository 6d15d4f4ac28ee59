"""The members of a room, their languages, and the tags under which they read them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.auth.permissions import Role
from gateway.core.delivery.outbox import Outbox
from gateway.core.members.member import Member
from gateway.core.members.subscribers import NAMED, Subscribers, shown_in
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import Delta, Final, ServerMessage, Source, Timing, View
from gateway.protocol.notices import Presence, Tick
from tests.support.meeting import NOW, read

LINGER = 30.0


def audience(*members: Member) -> Subscribers:
    made = Subscribers(("en", "de", "fr", "zh", "zh-Hant"), LINGER)
    for member in members:
        made.join(member)
    return made


def member(
    id: str, *langs: str, view: View = "live", role: Role = Role.SPEAK, speaker: str | None = None
) -> Member:
    made = Member(id, role, Outbox(Codec.JSON, Limits()))
    made.langs, made.view, made.speaker = langs, view, speaker
    return made


def heard(member: Member) -> list[ServerMessage]:
    return [read(frame) for frame in member.outbox.take()]


def final(lang: str = "de") -> Final:
    ms = Timing(queue=0, first=0, total=0)
    return Final(seq=1, id="u1", rev=1, ord=1, lang=lang, text="hallo", by="mt", ms=ms)


def delta(add: str = "", draft: str | None = None, *, reset: bool = False) -> Delta:
    return Delta(id="u1", rev=1, lang="de", add=add, draft=draft, reset=reset, n=len(add))


# --- languages ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "key"),
    [
        ("de", "de"),
        ("de-AT", "de"),
        ("zh-TW", "zh-Hant"),
        ("zh-CN", "zh"),
        ("sw", "sw"),
        ("sw-KE", "sw-KE"),
        ("no tag at all!", "no tag at all!"),
    ],
)
def test_a_tag_is_served_by_the_language_that_the_model_has(tag: str, key: str) -> None:
    assert audience().served_by(tag) == key


def test_a_language_is_wanted_while_somebody_reads_it_and_a_while_longer() -> None:
    one, two = member("1", "de"), member("2", "de-AT", "fr")
    room = audience(one, two)
    assert room.wanted == {"de", "fr"}
    room.leave(two, NOW)
    assert (room.wanted, room.due) == ({"de", "fr"}, NOW + LINGER)
    assert room.expire(NOW + 29) == set()
    assert room.expire(NOW + 30) == {"fr"}
    assert (room.wanted, room.due) == ({"de"}, None)


def test_a_language_that_is_read_again_stays() -> None:
    reader = member("1", "de")
    room = audience(reader)
    room.change(reader, (), NOW)
    room.change(reader, ("de-CH",), NOW + 10)
    assert room.expire(NOW + 100) == set()
    assert room.wanted == {"de"}


def test_the_first_language_to_go_says_when_to_look() -> None:
    one, two = member("1", "de"), member("2", "fr")
    room = audience(one, two)
    room.leave(one, NOW)
    room.leave(two, NOW + 5)
    assert room.due == NOW + LINGER
    room.expire(NOW + LINGER)
    assert room.due == NOW + 5 + LINGER


# --- who is told --------------------------------------------------------------------------------


def test_an_event_of_a_language_goes_to_its_readers_under_their_own_tags() -> None:
    members = member("1", "de"), member("2", "de-AT", "de-CH"), member("3", "fr")
    audience(*members).tell(Envelope(final()), "de", NOW)
    told = [[getattr(event, "lang", None) for event in heard(each)] for each in members]
    assert told == [["de"], ["de-AT", "de-CH"], []]
    assert [each.finals for each in members] == [1, 2, 0]


def test_an_event_of_no_language_goes_to_everybody_once() -> None:
    members = member("1", "de"), member("2", "de", "fr"), member("3")
    source = Source(seq=1, id="u1", rev=1, ord=1, lang="en", text="hello")
    audience(*members).tell(Envelope(source), None, NOW)
    assert [heard(each) for each in members] == [[source]] * 3


def test_a_member_that_is_answered_is_left_out_under_that_tag_only() -> None:
    one, two = member("1", "de", "de-AT"), member("2", "de")
    room = audience(one, two)
    room.tell(Envelope(final()), "de", NOW, but=one, tag="de")
    assert ([event.lang for event in heard(one) if isinstance(event, Final)], len(heard(two))) == (
        ["de-AT"],
        1,
    )
    room.tell(Envelope(Tick(seq=1)), None, NOW, but=one)
    assert (len(heard(one)), len(heard(two))) == (0, 1)


def test_a_member_that_left_is_sent_nothing_and_the_others_go_on() -> None:
    reader, same, other = member("1", "de"), member("2", "de"), member("3", "de", view="stable")
    room = audience(reader, same, other)
    room.leave(reader, NOW)
    room.tell(Envelope(final()), "de", NOW)
    room.tell(Envelope(Tick(seq=1)), None, NOW)
    room.show(delta("gu"), NOW)
    assert heard(reader) == []
    assert len(heard(same)) == len(heard(other)) == 3
    room.leave(same, NOW)
    room.show(delta("gu"), NOW)
    assert heard(same) == []
    assert heard(other) == [delta("gu")]
    room.leave(other, NOW)
    room.tell(Envelope(final()), "de", NOW)
    room.show(delta("gu"), NOW)
    assert heard(other) == []


def test_nothing_is_kept_of_readers_that_left() -> None:
    members = member("1", "de", "de-AT"), member("2", "de"), member("3", "fr", view="final")
    room = audience(*members)
    for each in members:
        room.leave(each, NOW)
    room.expire(NOW + LINGER)
    assert not (room.members or room._readers or room._groups or room._until)


@pytest.mark.parametrize(
    "send",
    [
        lambda room, reader, now: room.tell(Envelope(Tick(seq=1)), None, now),
        lambda room, reader, now: room.tell(Envelope(final()), "de", now),
        lambda room, reader, now: room.show(delta("gu"), now),
        lambda room, reader, now: room.catch_up(reader, "de", delta("gu"), now),
    ],
)
def test_every_event_shows_whether_its_reader_is_too_slow(
    send: Callable[[Subscribers, Member, float], None],
) -> None:
    reader = member("1", "de")
    room = audience(reader)
    room.tell(Envelope(final()), "de", NOW)
    send(room, reader, NOW + Limits().outbox_s)
    assert reader.outbox.closing is None
    send(room, reader, NOW + Limits().outbox_s + 1)
    assert reader.outbox.closing is CloseCode.TOO_SLOW


# --- what grows ---------------------------------------------------------------------------------


def test_each_view_is_shown_its_part_of_what_grows() -> None:
    views: tuple[View, ...] = ("live", "stable", "final")
    members = [member(view, "de", view=view) for view in views]
    room = audience(*members)
    for change in (delta("gu", "ten"), delta("te"), delta(draft="r Tag")):
        room.show(change, NOW)
        live, stable, ended = (heard(each) for each in members)
        assert live == [change]
        assert stable == ([shown_in("stable", change)] if change.add else [])
        assert ended == []
    room.show(delta(draft="Tag", reset=True), NOW)
    assert heard(members[1]) == [delta(reset=True)]


def test_a_draft_is_shown_behind_a_reader_who_is_shown_none() -> None:
    stable, live = member("1", "de", view="stable"), member("2", "de")
    audience(stable, live).show(delta(draft="gut"), NOW)
    assert (heard(stable), heard(live)) == ([], [delta(draft="gut")])


def test_what_grows_is_shown_under_the_tag_of_each_reader() -> None:
    reader = member("1", "de-AT", "de")
    audience(reader).show(delta("gu", "ten"), NOW)
    shown = heard(reader)
    assert [event.lang for event in shown if isinstance(event, Delta)] == ["de-AT", "de"]
    assert {(event.add, event.draft) for event in shown if isinstance(event, Delta)} == {
        ("gu", "ten")
    }


def test_a_delta_is_encoded_once_however_many_read_it() -> None:
    views: tuple[View, ...] = ("live", "stable", "live", "stable", "live")
    members = [member(f"{n}", "de", view=view) for n, view in enumerate(views)]
    audience(*members).show(delta("gu", "ten"), NOW)
    wires = [each.outbox.wires()[0] for each in members]
    assert len({id(wire) for wire in wires}) == 2


def test_a_new_reader_is_shown_a_caption_as_its_view_has_it() -> None:
    views: tuple[View, ...] = ("live", "stable", "final")
    room = audience()
    whole = Delta(id="u1", rev=1, lang="de", add="gu", draft="ten", reset=True, n=2)
    shown = []
    for view in views:
        reader = member(view, view=view)
        room.catch_up(reader, "de-AT", whole, NOW)
        shown.append([(e.lang, e.draft) for e in heard(reader) if isinstance(e, Delta)])
    assert shown == [[("de-AT", "ten")], [("de-AT", None)], []]


def test_a_settled_delta_has_no_draft() -> None:
    assert shown_in("stable", delta("gu", "ten", reset=True)) == delta("gu", reset=True)


# --- presence -----------------------------------------------------------------------------------


def test_presence_counts_readers_by_language_and_names_who_may_speak() -> None:
    room = audience(
        member("1", "de", speaker="Bob"),
        member("2", "de-AT", "fr", speaker="Ada", role=Role.MODERATE),
        member("3", "fr", speaker="Eve", role=Role.VIEW),
        member("4", speaker="Bob"),
        member("5"),
    )
    assert room.presence() == Presence(
        readers={"de": 2, "fr": 2}, members=5, speakers=("Ada", "Bob")
    )


def test_presence_names_the_speakers_that_came_first() -> None:
    room = audience(*(member(f"{n}", speaker=f"speaker {n:03}") for n in range(NAMED + 50)))
    assert room.presence().speakers == tuple(f"speaker {n:03}" for n in range(NAMED))
