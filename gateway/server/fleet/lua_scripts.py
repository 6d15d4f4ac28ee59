"""Lua scripts, which Redis runs as one step each.

Owns: the names of the keys, and every step that must not be interrupted: to take a room, to renew
it, to write an event, to give the room back. Must not know: connections, what an event says.

The lease of a room is a key with the value ``gateway fence``. Redis measures its life, so the
clocks of gateways do not matter. The fence is a number that grows with every owner. A gateway that
was stopped past its lease cannot write: the script compares the value of the lease first (Martin
Kleppmann, "How to do distributed locking", 2016). A fence is at least the time of Redis in
milliseconds, so it also grows if Redis has lost the fences before.

Scripts are sent as text each time. Redis caches them by their hash, and a restart of Redis needs no
care.

Every key has an end from its first write on, which is renewed while the key is in use. So gateways
that are killed leave nothing behind.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "captions"
"""First part of every key and channel."""


def lease(room: str) -> str:
    """Return the key of a room's lease."""
    return f"{PREFIX}:room:{room}:lease"


def fence(room: str) -> str:
    """Return the key of the newest fence of a room."""
    return f"{PREFIX}:room:{room}:fence"


def log(room: str) -> str:
    """Return the key of the durable events of a room.

    They are a sorted set by their numbers and not a stream, because the texts of an utterance that
    is retracted are replaced.
    """
    return f"{PREFIX}:room:{room}:log"


def keys(room: str) -> tuple[str, str, str]:
    """Return the keys of a room's lease, fence and log."""
    return lease(room), fence(room), log(room)


def feed(room: str) -> str:
    """Return the channel on which everything about a room is published."""
    return f"{PREFIX}:room:{room}:feed"


EVERYBODY: Final = feed("")
"""Channel of messages to all gateways. No room has the empty name."""


def room_of(key: bytes) -> str:
    """Return the room that the key of a log or the channel of a feed belongs to."""
    return key.decode()[len(f"{PREFIX}:room:") :].rpartition(":")[0]


def inbox(gateway: str) -> str:
    """Return the key of the stream of requests to a gateway."""
    return f"{PREFIX}:gateway:{gateway}:inbox"


def alive(gateway: str) -> str:
    """Return the key that exists while a gateway lives."""
    return f"{PREFIX}:gateway:{gateway}"


SIGNING_KEY: Final = f"{PREFIX}:signing-key"
"""Key of the secret that signs resume tokens for all gateways."""

VERSION: Final = f"{PREFIX}:version"
"""Key of the version of the messages that the gateways use; it ends after the last of them."""

JOIN: Final = """
local function read(key)
  local value = redis.pcall('GET', key)
  return type(value) ~= 'table' and value
end
local version = read(KEYS[1])
if not version and ARGV[4] == '' then return {'', ''} end
version = version or ARGV[1]
if version ~= ARGV[1] then return {version, ''} end
redis.call('SET', KEYS[1], version, 'PX', ARGV[3])
redis.call('SET', KEYS[2], '', 'PX', ARGV[2])
if ARGV[5] == '' then return {version, ''} end
local key = read(KEYS[3]) or ARGV[5]
redis.call('SET', KEYS[3], key, 'PX', ARGV[6])
return {version, key}
"""
"""Show a sign of life, unless living gateways use another version of the messages.

Keys: `VERSION`, sign of life, `SIGNING_KEY`. Arguments: version, milliseconds to keep the sign of
life, and the version; a word if this gateway may begin a fleet of its version; its signing key, if
it shares one, and milliseconds to keep that. Returns the version and the signing key of the fleet.
A value that is no text counts as missing, since it would keep all gateways away.
"""

LEAVE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
"""
"""Let the version end soon, unless another gateway renews it. Key: `VERSION`. Arguments: version,
milliseconds.
"""

SINCE: Final = f"{PREFIX}:since"
"""Key of the time since which gateways have renewed something in Redis without a break. It is new
after Redis was away, has lost its data, or had no gateways."""

RETURN_MS: Final = 1_000
"""Milliseconds after `SINCE` in which a gateway takes only rooms that it had before: it alone has
events of them that are not written. For as long again, a room that Redis does not know is left to
the gateways that have its log."""

PRESENT: Final = """
local since = redis.pcall('GET', KEYS[1])
if type(since) == 'string' and tonumber(since) then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
else
  local time = redis.call('TIME')
  redis.call('SET', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), 'PX', ARGV[1])
end
"""
"""Keep `SINCE`, or begin to count, also if it is no number: no room could be taken then.

Key: `SINCE`. Argument: milliseconds that it is kept.
"""

ACQUIRE: Final = """
if redis.call('EXISTS', KEYS[1]) == 1 then return {0, 0, 0} end
local known = tonumber(ARGV[2])
local fence = tonumber(redis.call('GET', KEYS[2]) or '0')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[4] == 'again' then
  if fence > known then return {0, 0, 0} end
else
  local grace = tonumber(ARGV[6])
  if fence == 0 and ARGV[4] == 'unknown' then grace = 2 * grace end
  local left = (tonumber(redis.call('GET', KEYS[5]) or now)) + grace - now
  if left > 0 then return {0, 0, math.min(left, grace)} end
end
fence = math.max(fence + 1, known + 1, now)
redis.call('SET', KEYS[2], fence, 'PX', ARGV[5])
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. fence, 'PX', ARGV[3])
local last = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')
redis.call('PUBLISH', KEYS[4], cmsgpack.pack({fence, -1, ARGV[1]}))
return {fence, tonumber(last[2] or '0'), 0}
"""
"""Take a room that nobody holds, and tell its followers.

Keys: lease, fence, log, feed, `SINCE`. Arguments: gateway, newest fence that it knows, milliseconds
of the lease, ``again`` if the gateway had the room (it is refused if another one held it since) or
``unknown`` if it has nothing of the room's log, milliseconds to keep the fence, `RETURN_MS`.
Returns the new fence, or 0 if it was refused; the number of the last event of the log; the
milliseconds after which to ask again, or 0 if another gateway holds the room.
"""

APPEND: Final = """
local held = redis.call('GET', KEYS[1])
if held ~= ARGV[1] then return held and 'other' or 'gone' end
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if last[2] then
  local number = tonumber(last[2])
  if number >= tonumber(ARGV[2]) then return 'ok' end
  if number + 1 < tonumber(ARGV[2]) then return 'gone' end
end
for n = 7, #ARGV, 2 do
  if redis.call('ZREMRANGEBYSCORE', KEYS[2], ARGV[n], ARGV[n]) > 0 then
    redis.call('ZADD', KEYS[2], ARGV[n], ARGV[n + 1])
  end
end
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - tonumber(ARGV[4]))
redis.call('PEXPIRE', KEYS[2], ARGV[6])
redis.call('PUBLISH', KEYS[3], ARGV[5])
return 'ok'
"""
"""Write a durable event and publish it, if the room is still held with this fence.

Keys: lease, log, feed. Arguments: value of the lease, number of the event, event, events to keep,
message for the feed, milliseconds to keep the log, then number and new content of each older event
that this one changes. Returns ``ok``; ``gone`` if nobody holds the room or the log has lost events;
``other`` if another gateway holds the room. An event that is in the log already was written by an
attempt whose answer was lost.
"""

RENEW: Final = """
local lost = {}
for n = 1, #KEYS, 3 do
  local held = redis.pcall('GET', KEYS[n])
  if held == ARGV[2 + (n + 2) / 3] then
    redis.call('PEXPIRE', KEYS[n], ARGV[1])
    redis.call('PEXPIRE', KEYS[n + 1], ARGV[2])
    redis.call('PEXPIRE', KEYS[n + 2], ARGV[2])
    lost[#lost + 1] = 'ok'
  else
    lost[#lost + 1] = held and 'other' or 'gone'
  end
end
return lost
"""
"""Renew the leases of a gateway.

Keys: lease, fence and log of each room. Arguments: milliseconds of a lease, milliseconds to keep
the rest, then the value of each lease. Returns a word for each room, as `APPEND` does.
"""

RELEASE: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
if ARGV[3] == 'end' then redis.call('DEL', KEYS[3]) end
redis.call('PUBLISH', KEYS[2], cmsgpack.pack({tonumber(ARGV[2]), -1, ''}))
return 1
"""
"""Give a room back, and tell its followers. Keys: lease, feed, log. Arguments: value of the lease,
fence, ``end`` to delete the log as well.
"""

SEND: Final = """
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'f', ARGV[3], 'n', ARGV[4], 'p', ARGV[5])
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
"""Write a request into an inbox, which ends by itself if its gateway has died.

Key: inbox. Arguments: requests that it keeps, milliseconds to keep it, sender, number, request.
"""

FORGET: Final = """
if redis.call('TYPE', KEYS[1]).ok ~= 'stream' then return redis.call('DEL', KEYS[1]) end
redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1])
redis.call('XDEL', KEYS[1], ARGV[1])
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
"""Delete the requests of an inbox that were read.

Key: inbox. Arguments: id of the last request that was read, milliseconds to keep the others. A key
that is no inbox is deleted.
"""
