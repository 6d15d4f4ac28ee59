"""Event streams, with every end."""

from __future__ import annotations

from tests.end_to_end.connections.kinds import Gateway, kind

EVENTS = "/v1/rooms/meeting/events?to=de"


@kind("/v1/rooms/{room}/events")
def an_event_stream_that_hangs_up(gateway: Gateway) -> None:
    client = gateway.ask("GET", EVENTS)
    client.until(b"welcome")
    client.hang_up()


@kind("/v1/rooms/{room}/events")
def an_event_stream_that_is_aborted(gateway: Gateway) -> None:
    client = gateway.ask("GET", EVENTS)
    client.until(b"welcome")
    client.abort()


@kind("/v1/rooms/{room}/events")
def an_event_stream_of_a_room_that_ends(gateway: Gateway) -> None:
    client = gateway.ask("GET", EVENTS)
    client.until(b"welcome")
    gateway.ask("DELETE", "/v1/rooms/meeting").end()
    assert b"4410" in client.end()


@kind("/v1/rooms/{room}/events")
def an_event_stream_that_is_refused(gateway: Gateway) -> None:
    assert b" 4" in gateway.ask("GET", "/v1/rooms/a%20b/events?to=de").end()
    assert b" 401 " in gateway.ask("GET", EVENTS, authorization="Bearer nothing").end()


@kind("/v1/rooms/{room}/events")
def an_event_stream_that_is_not_read(gateway: Gateway) -> None:
    speaker = gateway.welcome("to=de&room=meeting&view=final")
    slow = gateway.connect(receive=2048)
    slow.request("GET", EVENTS, headers=gateway.bearer)
    slow.until(b"welcome")
    (session,) = [s for s in gateway.live.hub.sessions.values() if s.member.view == "live"]
    while session.outbox.closing is None:
        speaker.frame("good morning " * 100)
        speaker.until(b'"final"')
    slow.abort()
    speaker.abort()
