"""Tests of the link between gateways, on a real Redis."""

from __future__ import annotations

import pytest

from gateway.errors import ClientFault
from gateway.server.fleet import lua_scripts
from gateway.server.fleet.write_queue import UNDER_WAY, WAITING
from tests.server.fleet.links import ROOM, Links, Peer
from tests.support.live import until
from tests.support.redis import RedisServer


async def take_by_force(redis: RedisServer, heir: Peer) -> None:
    """Have a gateway take the room, as if the lease of its owner had run out."""
    owns = False
    while not owns:  # the owner may renew its lease in between
        redis.cli("DEL", f"captions:room:{ROOM}:lease")
        owns = await heir.link.acquire(ROOM)


async def test_every_follower_is_told_the_events_of_the_owner_in_order(
    redis: RedisServer, links: Links
) -> None:
    owner, other = await links.join_two(redis)
    here, there = owner.rooms[ROOM], other.rooms[ROOM]
    owner.write(1)
    owner.tell("entwurf あ")
    owner.write(2, 3)
    for follower in (here, there):
        await until(lambda f=follower: f.numbers == [1, 2, 3])  # type: ignore[misc]
        assert follower.volatile == ["entwurf あ"]
        assert follower.owners[-1] == owner.link.id
    await until(lambda: owner.link.unwritten(ROOM) == 0)


async def test_a_late_follower_reads_the_log_first(redis: RedisServer, links: Links) -> None:
    owner, late = await links.join(redis), await links.join(redis)
    await owner.follow()
    assert await owner.link.acquire(ROOM)
    owner.write(*range(1, 51))
    follower = await late.follow()
    owner.write(51)
    await until(lambda: follower.numbers == list(range(1, 52)))
    assert follower.owners == [owner.link.id]


async def test_only_one_gateway_owns_a_room(redis: RedisServer, links: Links) -> None:
    first, second = await links.join_two(redis)
    assert not await second.link.acquire(ROOM)
    assert await first.link.acquire(ROOM), "it owns the room already"
    second.write(1)
    assert len(second.link.writer) == 0, "a gateway that does not own a room writes nothing"


async def test_a_room_that_is_given_back_can_be_taken_at_once(
    redis: RedisServer, links: Links
) -> None:
    first, second = await links.join_two(redis)
    follower = second.rooms[ROOM]
    first.write(1, 2)
    first.link.release(ROOM)
    await until(lambda: follower.owners[-1] is None and len(follower.owners) > 1)
    assert follower.numbers == [1, 2], "all was written before"
    assert await second.link.acquire(ROOM)
    second.write(3)
    await until(lambda: follower.numbers == [1, 2, 3])
    assert not first.lost


async def test_a_lease_that_is_missed_while_its_room_is_given_back_leaves_nothing_to_write(
    redis: RedisServer, links: Links
) -> None:
    owner = await links.join_owner(redis)
    await until(lambda: not len(owner.link.writer))
    redis.freeze()
    owner.link.release(ROOM)
    await until(lambda: len(owner.link.writer._under_way) == 1)
    owner.link.writer.recover()  # as when a renewal is answered first
    redis.thaw()
    await owner.link.writer.drained()
    assert not owner.link.owns(ROOM)


async def test_the_log_of_a_room_that_ends_is_deleted(redis: RedisServer, links: Links) -> None:
    peer = await links.join_owner(redis)
    peer.write(1)
    await until(lambda: peer.link.unwritten(ROOM) == 0)
    assert redis.cli("EXISTS", lua_scripts.log(ROOM)) == "1"
    peer.link.release(ROOM, end=True)
    await until(lambda: not peer.link.owns(ROOM))
    assert redis.cli("EXISTS", lua_scripts.log(ROOM)) == "0"
    assert await peer.link.read(ROOM) == []


async def test_the_room_of_a_dead_gateway_can_be_taken_with_its_whole_log(
    redis: RedisServer, links: Links
) -> None:
    dying, heir = await links.join_two(redis)
    follower = heir.rooms[ROOM]
    dying.write(1, 2)
    await until(lambda: dying.link.unwritten(ROOM) == 0)
    await redis.use_real_limits(dying.link.id)
    await links.kill(dying)
    await until(lambda: follower.owners[-1] is None)
    assert await heir.link.acquire(ROOM)
    heir.write(3)
    await until(lambda: follower.numbers == [1, 2, 3])


async def test_the_fence_refuses_an_owner_that_slept_past_its_lease(
    redis: RedisServer, links: Links
) -> None:
    sleeper, heir = await links.join_two(redis)
    asleep, awake = sleeper.rooms[ROOM], heir.rooms[ROOM]
    sleeper.write(1)
    await until(lambda: awake.numbers == [1])
    # The lease runs out without the sleeper's knowledge, and another gateway takes the room.
    await take_by_force(redis, heir)
    sleeper.write(2)
    sleeper.tell("draft of the sleeper")
    heir.write(2)
    await until(lambda: sleeper.lost == [ROOM])
    heir.write(3)
    await until(lambda: awake.numbers == asleep.numbers == [1, 2, 3])
    assert awake.volatile == []
    assert len(sleeper.link.writer) == 0


async def test_two_gateways_that_believe_to_own_a_room_write_one_log(
    redis: RedisServer, links: Links
) -> None:
    one, two = await links.join_two(redis)
    left, right = one.rooms[ROOM], two.rooms[ROOM]
    await take_by_force(redis, two)
    for number in range(1, 20):
        one.write(number)
        two.write(number)
    await until(lambda: left.numbers == right.numbers == list(range(1, 20)))
    assert left.log == right.log == await one.link.read(ROOM)
    await until(lambda: one.lost == [ROOM])  # the answer comes on another connection than the feed
    assert two.lost == []


async def test_requests_arrive_once_and_in_order(redis: RedisServer, links: Links) -> None:
    owner, other = await links.join(redis), await links.join(redis)
    sent = [f"Anfrage {n} 請求".encode() for n in range(2_000)]
    for request in sent:
        other.link.send(owner.link.id, request)
    await until(lambda: len(owner.requests) == len(sent))
    assert owner.requests == sent
    other.link.send(other.link.id, b"to itself")
    assert other.requests == [], "not before the caller has returned"
    await until(lambda: other.requests == [b"to itself"])


async def test_a_gateway_that_sent_requests_and_died_is_reported(
    redis: RedisServer, links: Links
) -> None:
    owner, dying = await links.join(redis), await links.join(redis)
    dying.link.send(owner.link.id, b"hello")
    await until(lambda: owner.requests == [b"hello"])
    await redis.use_real_limits(dying.link.id)
    await links.kill(dying)
    await until(lambda: owner.lost_gateways == [dying.link.id])


async def test_all_gateways_share_one_signing_key(redis: RedisServer, links: Links) -> None:
    one = await links.join(redis, key=b"1" * 32)
    two = await links.join(redis, key=b"2" * 32)
    await links.join(redis)
    assert one.link.key == two.link.key == b"1" * 32
    assert (one.keys, two.keys) == ([], [b"1" * 32])


async def test_a_room_cannot_be_followed_while_redis_is_away(
    redis: RedisServer, links: Links
) -> None:
    peer = await links.join(redis)
    redis.kill()
    await until(lambda: not peer.link.connected)
    with pytest.raises(ClientFault, match="cannot reach the others"):
        await peer.follow()


async def test_messages_for_the_owner_alone_keep_their_place_behind_durable_events(
    redis: RedisServer, links: Links
) -> None:
    owner, other = await links.join_two(redis)
    here, there = owner.rooms[ROOM], other.rooms[ROOM]
    owner.tell("for all")
    owner.tell("behind one for all", alone=True)
    assert len(here.volatile) == 2, "the messages of this gateway need not pass through Redis"
    owner.tell("at once", alone=True)
    assert here.volatile[-1] == "at once", "nothing has to come first"
    owner.write(1)
    owner.tell("behind an event", alone=True)
    assert here.volatile[-1] == "at once"
    owner.tell("for all again")
    await until(lambda: here.volatile[-1] == "for all again")
    assert here.volatile[-2:] == ["behind an event", "for all again"]
    assert here.numbers == [1]
    await until(lambda: there.volatile[-1:] == ["for all again"])
    assert there.volatile == ["for all", "for all again"]


async def test_an_event_may_change_older_events_in_the_log(
    redis: RedisServer, links: Links
) -> None:
    owner, reader = await links.join_two(redis)
    there = reader.rooms[ROOM]
    owner.write(1, 2, 3)
    changed = [(1, b"1 erased"), (3, "3 gelöscht".encode()), (0, b"0 was never here")]
    owner.link.append(ROOM, 4, b"4 retracted", changed)
    await until(lambda: there.numbers == [1, 2, 3, 4])
    log = [event.decode() for _, event in await reader.link.read(ROOM)]
    assert log == ["1 erased", "2 你好 2", "3 gelöscht", "4 retracted"]
    assert await reader.link.read(ROOM, 3) == [(4, b"4 retracted")]


async def test_the_log_keeps_the_newest_events(redis: RedisServer, links: Links) -> None:
    owner = await links.join_owner(redis)
    follower = owner.rooms[ROOM]
    owner.write(*range(1, 1_101))
    await until(lambda: follower.numbers[-1:] == [1_100])
    log = await owner.link.read(ROOM)
    assert [number for number, _ in log] == list(range(101, 1_101))


async def test_the_fence_also_keeps_older_events_from_being_changed(
    redis: RedisServer, links: Links
) -> None:
    sleeper, heir = await links.join_two(redis)
    sleeper.write(1)
    await until(lambda: sleeper.link.unwritten(ROOM) == 0)
    await take_by_force(redis, heir)
    sleeper.link.append(ROOM, 2, b"2 late", [(1, b"1 erased")])
    await until(lambda: sleeper.lost == [ROOM])
    assert await heir.link.read(ROOM) == [(1, "1 你好 1".encode())]


async def test_requests_that_were_read_are_deleted(redis: RedisServer, links: Links) -> None:
    owner, other = await links.join(redis), await links.join(redis)
    inbox = lua_scripts.inbox(owner.link.id)
    for text in ("geheim", "秘密"):
        other.link.send(owner.link.id, text.encode())
    await until(lambda: len(owner.requests) == 2)
    await until(lambda: redis.cli("XLEN", inbox) == "0")
    other.link.send(owner.link.id, b"more")
    await until(lambda: owner.requests[2:] == [b"more"])


async def test_all_of_a_room_expires_some_time_after_its_last_gateway_has_ended(
    redis: RedisServer, links: Links
) -> None:
    peer = await links.join_owner(redis)
    peer.write(1)
    for key in (lua_scripts.log(ROOM), lua_scripts.fence(ROOM)):
        await until(lambda key=key: 3_500_000 < int(redis.cli("PTTL", key)) <= 3_600_000)  # type: ignore[misc]


async def test_a_broadcast_reaches_every_gateway_and_the_newest_replaces_one_that_waits(
    redis: RedisServer, links: Links
) -> None:
    peers = [await links.join(redis) for _ in range(3)]
    follower = await peers[0].follow()
    peers[0].link.broadcast(b"old")
    peers[0].link.broadcast("使用量".encode())
    await until(lambda: all(peer.broadcasts for peer in peers))
    assert [peer.broadcasts for peer in peers] == [["使用量".encode()]] * 3
    assert follower.log == [] and follower.volatile == [], "it concerns no room"


async def test_commands_do_not_wait_for_the_answers_to_those_before(
    redis: RedisServer, links: Links
) -> None:
    owner, other = await links.join_two(redis)
    here, there = owner.rooms[ROOM], other.rooms[ROOM]
    await until(lambda: not len(owner.link.writer))
    writer = owner.link.writer
    redis.freeze()
    owner.write(1)
    await until(lambda: len(writer._under_way) == 1)
    owner.tell("entwurf あ")
    await until(lambda: len(writer._under_way) == 2)
    for number in range(2, 1_000):
        owner.write(number)
    await until(lambda: len(writer._under_way) == UNDER_WAY)
    assert len(owner.link.writer) == 1_000, "the others wait"
    redis.thaw()
    await until(lambda: here.numbers == there.numbers == list(range(1, 1_000)))
    assert there.volatile == ["entwurf あ"]
    await until(lambda: not len(owner.link.writer))


async def test_volatile_messages_are_dropped_if_too_many_commands_wait(
    redis: RedisServer, links: Links
) -> None:
    owner = await links.join_owner(redis)
    await until(lambda: not len(owner.link.writer))
    redis.freeze()
    for _ in range(WAITING + 3):
        owner.tell("drafts")
    assert (len(owner.link.writer), owner.link.writer.dropped) == (WAITING, 3)
    redis.thaw()
    await until(lambda: not len(owner.link.writer))


async def test_messages_of_an_owner_that_was_replaced_are_not_shown_beside_it(
    redis: RedisServer, links: Links
) -> None:
    sleeper, heir = await links.join_two(redis)
    asleep = sleeper.rooms[ROOM]
    sleeper.tell("in time")
    feed = sleeper.link._feeds.rooms[ROOM]
    feed.set_owner(heir.link.id, feed.fence + 1)  # its own lease is not looked at yet
    sleeper.tell("too late")
    assert sleeper.link.owns(ROOM)
    assert asleep.volatile == ["in time"]
