"""WebSockets of every kind, with every end."""

from __future__ import annotations

import base64

import msgspec

from gateway.errors import CloseCode
from tests.end_to_end.connections.kinds import LIMITS, Gateway, ended, kind
from tests.support.hearing import tone

TRANSCRIPTION = "/v1/realtime?intent=transcription"


@kind("/v1/ws", CloseCode.DONE)
def said_bye(gateway: Gateway) -> None:
    client = gateway.welcome()
    client.frame("good morning")
    client.until(b'"final"')
    client.frame({"type": "bye"})
    ended(client, CloseCode.DONE)


@kind("/v1/ws", CloseCode.GOING_AWAY)
def closed_by_the_client(gateway: Gateway) -> None:
    client = gateway.welcome("to=de&room=meeting")
    client.frame("good morning")
    client.until(b'"final"')
    client.close(CloseCode.GOING_AWAY)


@kind("/v1/ws")
def aborted(gateway: Gateway) -> None:
    gateway.welcome().abort()


@kind("/v1/ws")
def aborted_before_the_welcome(gateway: Gateway) -> None:
    gateway.socket().abort()


@kind("/v1/ws")
def aborted_inside_of_a_frame(gateway: Gateway) -> None:
    client = gateway.welcome("to=de&room=meeting")
    client.send(b"\x81\xfe\x10")
    client.abort()


@kind("/v1/ws")
def hung_up_while_captions_come(gateway: Gateway) -> None:
    client = gateway.welcome("to=de,fr&room=meeting")
    client.frame("good morning " * 20)
    client.until(b'"delta"')
    client.hang_up()


@kind("/v1/ws")
def msgpack(gateway: Gateway) -> None:
    client = gateway.welcome("to=de", 0, **{"sec-websocket-protocol": "gw.v1.msgpack"})
    client.frame(msgspec.msgpack.encode({"type": "say", "text": "good"}))
    client.until(b"final")
    client.close()


@kind("/v1/ws")
def plain_lines(gateway: Gateway) -> None:
    client = gateway.socket("from=en&to=de&plain=1")
    client.frame("good morning")
    client.until(b"[de] good morning")
    client.close()


@kind("/v1/ws")
def a_long_meeting(gateway: Gateway) -> None:
    client = gateway.welcome("to=de&room=meeting")
    for _ in range(30):
        client.frame("good morning")
        client.until(b'"final"')
    for form in ("vtt", "srt", "txt", "json"):
        assert b" 200 " in gateway.ask("GET", f"/v1/rooms/meeting/transcript.{form}?lang=de").end()
    late = gateway.welcome("to=de&room=meeting")
    late.until(b'"final"')
    late.abort()
    client.close()


@kind("/v1/ws")
def aborted_after_a_cancelled_caption(gateway: Gateway) -> None:
    gateway.call(gateway.engine.hold)
    client = gateway.welcome()
    client.frame({"type": "say", "id": "a", "text": "one two"})
    client.until(b'"source"')
    client.frame({"type": "cancel", "id": "a"})
    client.until(b'"cancelled"')
    client.frame({"type": "say", "id": "b", "text": "three"})
    client.until(b'"source"')
    client.abort()


@kind("/v1/ws")
def refused_messages(gateway: Gateway) -> None:
    client = gateway.welcome()
    for wrong in ('{"type":"want","langs":["xx-nope-no"]}', "{", '{"type":"audio","codec":"mp3"}'):
        client.frame(wrong)
        client.until(b'"error"')
    client.close()


@kind("/v1/ws")
def a_language_that_the_engine_does_not_have(gateway: Gateway) -> None:
    client = gateway.welcome("to=xx-nope-no")
    client.until(b'"error"')
    client.close()


@kind("/v1/ws", CloseCode.PROTOCOL_ERROR)
def unreadable_frames(gateway: Gateway) -> None:
    client = gateway.welcome()
    for _ in range(10):
        client.frame("{")
    ended(client, CloseCode.PROTOCOL_ERROR)


@kind("/v1/ws", CloseCode.INVALID_DATA)
def invalid_utf8(gateway: Gateway) -> None:
    client = gateway.welcome()
    client.frame(b"\xff\xff", head=0x81)
    ended(client, CloseCode.INVALID_DATA)


@kind("/v1/ws", CloseCode.TOO_BIG)
def a_frame_that_is_too_big(gateway: Gateway) -> None:
    client = gateway.welcome()
    client.send(b"\x82\xff" + (2**30).to_bytes(8, "big") + bytes(4))
    ended(client, CloseCode.TOO_BIG)


@kind("/v1/ws")
def an_unknown_opcode(gateway: Gateway) -> None:
    client = gateway.welcome()
    client.send(b"\x83\x80" + bytes(4))
    client.end()


@kind("/v1/ws", CloseCode.TOO_SLOW)
def a_slow_reader(gateway: Gateway) -> None:
    speaker = gateway.welcome("to=de&room=meeting&view=final")
    slow = gateway.welcome("to=de&room=meeting", receive=2048)
    (session,) = [s for s in gateway.live.hub.sessions.values() if s.member.view == "live"]
    while session.outbox.closing is None:
        speaker.frame("good morning " * 100)
        speaker.until(b'"final"')
    assert session.outbox.closing is CloseCode.TOO_SLOW
    slow.abort()
    speaker.abort()


@kind("/v1/ws", CloseCode.REPLACED)
def replaced(gateway: Gateway) -> None:
    before = gateway.socket("to=de&room=meeting")
    before.until(b'"resume":"')
    token = before.until(b'"')[:-1].decode()
    after = gateway.welcome(f"to=de&room=meeting&resume={token}")
    ended(before, CloseCode.REPLACED)
    after.close()


@kind("/v1/rooms/{room}", CloseCode.ROOM_ENDED)
def the_room_was_deleted(gateway: Gateway) -> None:
    client = gateway.welcome("to=de&room=meeting")
    gateway.ask("DELETE", "/v1/rooms/meeting").end()
    ended(client, CloseCode.ROOM_ENDED)


@kind("/v1/ws", CloseCode.UNAUTHENTICATED)
def without_a_key(gateway: Gateway) -> None:
    ended(gateway.socket(authorization="Bearer nothing"), CloseCode.UNAUTHENTICATED)


@kind("/v1/ws", CloseCode.FORBIDDEN)
def not_allowed_to_speak(gateway: Gateway) -> None:
    key = f"Bearer {gateway.viewer}"
    ended(gateway.socket("role=speak&room=meeting", authorization=key), CloseCode.FORBIDDEN)


@kind("/v1/ws", CloseCode.NO_SUCH_ROOM)
def the_private_room_is_gone(gateway: Gateway) -> None:
    client = gateway.socket()
    client.until(b'"resume":"')
    token = client.until(b'"')[:-1].decode()
    client.close()
    gateway.settle()
    ended(gateway.socket(f"to=de&resume={token}"), CloseCode.NO_SUCH_ROOM)


@kind("/v1/ws", CloseCode.TOO_MANY)
def one_socket_too_many(gateway: Gateway) -> None:
    clients = [gateway.welcome() for _ in range(LIMITS.sessions)]
    ended(gateway.socket(), CloseCode.TOO_MANY)
    for client in clients:
        client.abort()


@kind("/v1/ws", CloseCode.SERVER_ERROR)
def a_fault_of_the_gateway(gateway: Gateway) -> None:
    client = gateway.welcome()
    (session,) = gateway.live.hub.sessions.values()
    object.__setattr__(session, "_bucket", None)
    client.frame("good morning")
    ended(client, CloseCode.SERVER_ERROR)


@kind("/v1/ws")
def a_job_that_fails(gateway: Gateway) -> None:
    def fault(*_: object) -> None:
        raise ValueError("a fault of the engine")

    gateway.engine.fault = fault
    client = gateway.welcome()
    client.frame("good morning")
    client.until(b'"failed"')
    gateway.engine.fault = None
    client.close()


@kind("/v1/ws")
def a_handshake_without_a_key_of_its_own(gateway: Gateway) -> None:
    client = gateway.connect()
    client.request("GET", "/v1/ws", headers={"upgrade": "websocket", "connection": "upgrade"})
    assert b" 400 " in client.end()


@kind("/v1/ws")
def a_request_without_upgrade(gateway: Gateway) -> None:
    assert b" 426 " in gateway.ask("GET", "/v1/ws").end()


@kind("/{path:path}")
def a_socket_of_an_unknown_path(gateway: Gateway) -> None:
    gateway.socket("/nothing").end()


@kind("/v1/realtime")
def realtime_closed(gateway: Gateway) -> None:
    gateway.welcome(TRANSCRIPTION).close()


@kind("/v1/realtime")
def realtime_aborted(gateway: Gateway) -> None:
    client = gateway.welcome(TRANSCRIPTION)
    client.frame({"type": "session.update", "session": {"type": "transcription"}})
    client.until(b"session.updated")
    client.abort()


@kind("/v1/realtime")
def realtime_with_bad_events(gateway: Gateway) -> None:
    client = gateway.welcome(TRANSCRIPTION)
    for wrong in ("{", '{"type":"response.create"}'):
        client.frame(wrong)
        client.until(b'"error"')
    client.abort()


@kind("/v1/realtime/translations")
def realtime_translation(gateway: Gateway) -> None:
    gateway.welcome("/v1/realtime/translations?from=en&to=de").abort()


# --- microphones ----------------------------------------------------------------------------------


@kind("/v1/ws")
def a_microphone(gateway: Gateway) -> None:
    client = gateway.welcome()
    client.frame({"type": "audio", "codec": "pcm_s16le"})
    client.frame(tone(0.1))
    client.until(b'"audio"')
    client.abort()


@kind("/v1/realtime")
def a_realtime_microphone(gateway: Gateway) -> None:
    client = gateway.welcome(TRANSCRIPTION)
    client.frame({"type": "session.update", "session": {"type": "transcription"}})
    client.until(b"session.updated")
    audio = base64.b64encode(tone(0.1, 24_000)).decode()
    client.frame({"type": "input_audio_buffer.append", "audio": audio})
    gateway.until(lambda: gateway.live.hub.recognition.audio_s)  # type: ignore[union-attr]
    client.abort()
