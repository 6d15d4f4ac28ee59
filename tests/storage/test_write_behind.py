"""Write-behind state, without a disk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.history.event_log import EventLog
from gateway.limits import Limits
from gateway.protocol.messages import Retracted, Source
from gateway.protocol.messages import Settings as Changed
from gateway.storage.write_behind import FollowedRoom, RoomWrite, WriteBehind, folded
from tests.support.typed import current

ALL = 1_000


class Rooms:
    """Write-behind state of some rooms, with the reports about lost events."""

    def __init__(self, limits: Limits | None = None, *, keep: bool = False) -> None:
        self.limits = limits if limits is not None else Limits()
        self.told: list[int] = []
        self.pending = WriteBehind(self.limits, keep=keep, drop=self.told.append)
        self.made = 0

    def follow(self, name: str = "meeting", events: int = 0) -> FollowedRoom:
        self.made += 1
        log = EventLog("e", self.limits)
        room = self.pending.follow(FollowedRoom(self.made, 0.0, name, log))
        self.say(room, events)
        return room

    def say(self, room: FollowedRoom, events: int = 1) -> None:
        for _ in range(events):
            seq = room.log.seq + 1
            event = Source(seq=seq, id=f"u{seq}", rev=1, ord=seq, lang="en", text="hello")
            room.log.append(event, 0.0)

    def write(self, most: int = ALL) -> list[tuple[str, list[int]]]:
        """Gather the events of one transaction and mark them as written."""
        writes = self.pending.gather(most)
        self.pending.wrote(writes, tuple(self.pending.doomed))
        return [(one.room.name, numbers(one)) for one in writes]


def numbers(write: RoomWrite) -> list[int]:
    """Return the numbers of the events of a write."""
    return [seq for entry in write.entries if (seq := entry.event.seq) is not None]


def test_new_events_are_gathered_until_they_are_written() -> None:
    rooms = Rooms()
    room = rooms.follow(events=2)
    assert rooms.pending.behind == 2
    for _ in range(2):  # the first one failed
        (write,) = rooms.pending.gather(ALL)
        assert (write.oldest, write.until, write.last) == (0, 2, False)
    assert rooms.write() == [("meeting", [1, 2])]
    assert (rooms.pending.behind, room.stored) == (0, True)
    assert rooms.write() == []
    rooms.say(room)
    assert rooms.write() == [("meeting", [3])]


def test_events_that_arrive_during_a_write_wait_for_the_next_one() -> None:
    rooms = Rooms()
    room = rooms.follow(events=1)
    writes = rooms.pending.gather(ALL)
    rooms.say(room)
    rooms.pending.wrote(writes, ())
    assert rooms.pending.behind == 1
    assert rooms.write() == [("meeting", [2])]


def test_a_transaction_is_bounded_and_released_rooms_come_first() -> None:
    rooms = Rooms()
    for name in "abc":
        rooms.follow(name, events=3)
    rooms.pending.release("b")
    assert rooms.write(most=4) == [("b", [1, 2, 3]), ("a", [1])]
    assert rooms.write(most=2) == [("a", [2, 3])]
    assert rooms.write(most=4) == [("c", [1, 2, 3])]


def test_a_released_room_is_followed_until_it_is_written_completely() -> None:
    rooms = Rooms()
    room = rooms.follow(events=3)
    rooms.pending.release("meeting")
    assert (room.left, room.ended) == (True, False)
    assert rooms.write(most=2) == [("meeting", [1, 2])]
    assert rooms.pending.find("meeting") is room
    assert rooms.write() == [("meeting", [3])]
    assert rooms.pending.find("meeting") is None


def test_a_released_room_without_new_events_is_unfollowed_too() -> None:
    rooms = Rooms()
    rooms.follow(events=1)
    rooms.write()
    rooms.pending.release("meeting")
    (write,) = rooms.pending.gather(ALL)
    assert (write.entries, write.last) == ([], True)


def test_an_ended_room_is_deleted_or_if_rooms_are_kept_written_completely() -> None:
    gone, kept = Rooms(), Rooms(keep=True)
    for rooms in (gone, kept):
        rooms.follow(events=2)
        rooms.pending.end("meeting")
        assert not rooms.pending.living
    assert (gone.pending.behind, gone.pending.doomed) == (0, {1})
    assert gone.write() == [] and gone.pending.doomed == set()
    (write,) = kept.pending.gather(ALL)
    assert (write.room.ended, write.last, kept.pending.doomed) == (True, True, set())


def test_release_end_and_forget_ignore_unknown_rooms() -> None:
    rooms = Rooms()
    rooms.pending.release("nobody's")
    rooms.pending.end("nobody's")
    assert not rooms.pending.forget("nobody's")
    assert (rooms.pending.rooms, rooms.pending.doomed) == ((), set())


def test_forget_removes_all_rooms_of_a_name_and_no_others() -> None:
    rooms = Rooms(keep=True)
    for _ in range(2):
        rooms.follow(events=1)
        rooms.pending.end("meeting")
    rooms.follow(events=1)
    other = rooms.follow("other", events=1)
    assert rooms.pending.forget("meeting")
    assert rooms.pending.doomed == {1, 2, 3}
    assert list(rooms.pending.rooms) == [other]
    assert not rooms.pending.forget("meeting")


def test_only_one_room_of_a_name_is_open() -> None:
    rooms = Rooms()
    first = rooms.follow()
    assert rooms.follow() is first
    assert dict(rooms.pending.living) == {"meeting": first}


def test_the_newest_room_of_a_name_is_found() -> None:
    rooms = Rooms(keep=True)
    first = rooms.follow(events=1)
    rooms.pending.end("meeting")
    rooms.follow("other", events=1)
    rooms.pending.end("other")
    assert rooms.pending.find("meeting") is first
    second = rooms.follow(events=1)
    assert rooms.pending.find("meeting") is second
    rooms.pending.end("meeting")
    assert rooms.pending.find("meeting") is second


def test_a_room_taken_over_by_another_process_is_no_longer_written() -> None:
    rooms = Rooms()
    lives = rooms.follow("a", events=1)
    left = rooms.follow("b", events=1)
    rooms.pending.release("b")
    rooms.pending.unfollow(left)
    rooms.pending.unfollow(lives)
    assert rooms.write() == []


def test_unwritten_events_that_a_log_drops_are_lost_and_reported_once() -> None:
    rooms = Rooms(Limits(log=10))
    room = rooms.follow(events=4)
    rooms.write()
    rooms.say(room, 16)
    assert rooms.write() == [("meeting", [*range(11, 21)])]
    assert (rooms.pending.lost, rooms.told) == (6, [6])
    assert rooms.write() == [] and rooms.told == [6]


def test_released_rooms_are_bounded_and_the_events_of_the_oldest_are_lost() -> None:
    rooms = Rooms(Limits(rooms=2))
    for name in "abcd":
        rooms.follow(name, events=0 if name == "b" else 5)
        rooms.pending.release(name)
    assert [room.name for room in rooms.pending.rooms] == ["c", "d"]
    assert (rooms.pending.lost, rooms.told) == (5, [5])  # of "b" nothing was


def test_abandoned_events_are_lost() -> None:
    rooms = Rooms()
    rooms.follow("a", events=2)
    rooms.follow("b", events=1)
    rooms.pending.release("b")
    rooms.pending.abandon()
    assert (rooms.pending.lost, rooms.pending.behind, rooms.told) == (3, 0, [])
    rooms.pending.abandon()
    assert rooms.pending.lost == 3


def test_a_write_has_the_entries_whose_text_was_erased() -> None:
    rooms = Rooms()
    room = rooms.follow(events=3)
    room.log.erase(2)
    room.log.append(Retracted(seq=room.log.seq + 1, id="u2", ord=2), 0.0)
    (write,) = rooms.pending.gather(ALL)
    assert [(entry.event.seq, entry.event) for entry in write.erased] == [
        (2, Source(seq=2, id="u2", rev=1, ord=2, lang="en", text=""))
    ]


def test_a_write_has_the_settings_after_its_events() -> None:
    rooms = Rooms()
    room = rooms.follow()
    for context in ("a court", "a school"):
        seq = room.log.seq + 1
        room.log.append(Changed(seq=seq, version=seq, context=context), 0.0)
    (write,) = rooms.pending.gather(1)
    assert write.settings is not None and write.settings.context == "a court"
    assert current(room.settings) is None
    rooms.pending.wrote([write], ())
    assert room.settings == write.settings
    (write,) = rooms.pending.gather(1)
    assert write.settings is not None and write.settings.context == "a school"


def test_settings_of_a_room_leave_out_those_of_one_speaker() -> None:
    first = Changed(seq=1, version=1, context="a court", style="formal", speaker="Ana", from_="de")
    second = Changed(seq=2, version=2, style="plain", session="s1", ref="r1")
    assert folded(folded(None, first), second) == Changed(
        seq=2, version=2, context="a court", style="plain"
    )


acts = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from("abc"), st.integers(1, 6)),
        st.tuples(
            st.sampled_from(["release", "end", "forget"]), st.sampled_from("abc"), st.just(0)
        ),
        st.tuples(st.just("write"), st.just(""), st.integers(1, 6)),
    ),
    max_size=40,
)


@given(acts=acts, keep=st.booleans())
def test_every_event_is_written_once_in_order_lost_or_deleted_with_its_room(
    acts: list[tuple[str, str, int]], keep: bool
) -> None:
    rooms = Rooms(Limits(log=5, rooms=3), keep=keep)
    file: dict[int, list[int]] = {}
    said = deleted = 0
    followed: list[FollowedRoom] = []

    def write(most: int) -> None:
        writes = rooms.pending.gather(most)
        assert sum(len(one.entries) for one in writes) <= most
        for one in writes:
            file.setdefault(one.room.id, []).extend(numbers(one))
        rooms.pending.wrote(writes, tuple(rooms.pending.doomed))

    for what, name, number in acts:
        match what:
            case "say":
                followed.append(rooms.follow(name))
                rooms.say(followed[-1], number)
                said += number
            case "release":
                rooms.pending.release(name)
            case "write":
                write(number)
            case _:
                before = rooms.pending.behind
                (rooms.pending.end if what == "end" else rooms.pending.forget)(name)
                if what == "forget" or not keep:
                    deleted += before - rooms.pending.behind
    while rooms.pending.behind:
        write(ALL)
    for seqs in file.values():
        assert seqs == sorted(set(seqs))
    assert sum(map(len, file.values())) + rooms.pending.lost + deleted == said
    assert sum(rooms.told) == rooms.pending.lost
