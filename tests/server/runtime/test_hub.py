"""Work of the hub that no frame asks for, and connections to it."""

from __future__ import annotations

import asyncio
import json
from typing import ClassVar

import msgspec
import pytest

from gateway.auth.permissions import Permissions, Quota, Role
from gateway.core.session.connect_request import ConnectRequest
from gateway.engines.base.engine import Sink
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import ClientFault, CloseCode, ErrorCode
from gateway.job import Job
from gateway.limits import Limits
from gateway.protocol.messages import Final, Welcome
from gateway.server.runtime import hub as module
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost, TextOptions
from tests.support.live import until
from tests.support.meeting import EAGER, read
from tests.support.typed import current


async def test_housekeeping_goes_on_after_a_fault_in_it_and_the_fault_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Moody(ScriptedEngine):
        asked = 0

        @property
        def capacity(self) -> int:
            self.asked += 1
            if self.asked == 2:  # the first is the hub's own beginning
                raise ValueError("a bug")
            return self.asked

    monkeypatch.setattr(module, "HOUSEKEEPING_S", 0)
    engine = Moody()
    await engine.start()
    hub = Hub(RoomHost(engine, Limits()))
    keeper = asyncio.create_task(hub.keep())
    await until(lambda: hub.scheduler.capacity >= 3)
    keeper.cancel()
    assert "a bug" in caplog.text


async def test_waiting_jobs_start_as_soon_as_the_engine_has_more_capacity() -> None:
    class Substituting(ScriptedEngine):
        substitute: str | None = "small"
        changed = staticmethod(lambda: None)

        @property
        def capacity(self) -> int:
            return 0 if self.substitute else 4

        def serves(self, source: str, target: str) -> bool:
            return True

    engine = Substituting()
    await engine.start()
    hub = Hub(RoomHost(engine, Limits()))
    peer = hub.open(ConnectRequest(targets=("de", "fr")))
    hub.receive(peer, '{"type":"say","id":"u1","text":"hello","final":true}')
    assert hub.scheduler.queued == 2
    engine.substitute = None
    engine.changed()
    await asyncio.sleep(0)
    assert (hub.scheduler.queued, hub.scheduler.running) == (0, 2)
    await until(lambda: not hub.scheduler.running)


async def test_a_room_has_one_alarm_and_the_newest_setting_counts() -> None:
    hub = Hub(RoomHost(ScriptedEngine(), Limits()))
    reader = hub.open(ConnectRequest(room="r", targets=("de",)))
    hub.receive(reader, '{"type":"want","langs":["fr"]}')
    linger = hub.host._alarms["r"]
    hub.open(ConnectRequest(room="r"))
    presence = hub.host._alarms["r"]
    assert linger.cancelled() and not presence.cancelled()
    assert presence.when() < linger.when()
    presence.cancel()


async def test_a_job_whose_own_output_stops_it_is_aborted_at_once() -> None:
    engine = ScriptedEngine(
        {
            ("we met", "de"): ["wir", " trafen", " uns"],
            ("we met in", "de"): ["wir", " trafen", " uns", " im"],
            ("we met in March", "de"): ["Im", *([" März"] * 1000)],
        }
    )
    await engine.start()
    hub = Hub(RoomHost(engine, Limits(), text=TextOptions(flow=EAGER)))
    peer = hub.open(ConnectRequest(room="r", targets=("de",)))
    for text in ("we met", "we met in"):
        say = {"type": "say", "id": "x", "text": text, "final": False}
        hub.receive(peer, json.dumps(say))
        await until(lambda: not hub.scheduler.running)
    engine.hold()
    hub.receive(peer, '{"type":"say","id":"x","text":"we met in March"}')
    await engine.step()
    await until(lambda: len(engine.started) == 4)
    assert list(engine.aborted) == [engine.started[2]]
    engine.release()
    await until(lambda: not hub.scheduler.running)
    hub.close(peer)


async def test_a_deleted_room_may_begin_again_while_its_old_job_still_stops() -> None:
    class Slow(ScriptedEngine):
        def abort(self, job_id: str) -> None:
            asyncio.get_running_loop().call_soon(super().abort, job_id)

    engine = Slow()
    await engine.start()
    engine.hold()
    hub = Hub(RoomHost(engine, Limits()))
    for text in ("one", "two"):
        await hub.forget("r")
        hub.receive(hub.open(ConnectRequest(room="r", targets=("de",))), text)
    assert hub.scheduler.running == 2
    await until(lambda: hub.scheduler.running == 1)
    engine.release()
    await until(lambda: not hub.scheduler.running)
    (final,) = (e.event for e in hub.rooms["r"].log.entries() if isinstance(e.event, Final))
    assert final.text == "[de] two"
    await hub.forget("r")


async def test_a_new_room_knows_how_long_the_translations_of_other_rooms_are() -> None:
    class Recording(ScriptedEngine):
        jobs: ClassVar[list[Job]] = []

        def submit(self, job: Job, sink: Sink) -> None:
            self.jobs.append(job)
            super().submit(job, sink)

    engine = Recording()
    await engine.start()
    hub = Hub(RoomHost(engine, Limits()))
    text = "this is a line of more than ten words, so that some are masked"
    hub.receive(hub.open(ConnectRequest(room="a", targets=("de",))), text)
    await until(lambda: not hub.scheduler.running)
    other = hub.open(ConnectRequest(room="b", targets=("de",)))
    for _ in range(2):  # words that two texts in a row have are translated
        say = {"type": "say", "id": "u", "text": text, "final": False}
        hub.receive(other, json.dumps(say))
    await until(lambda: not hub.scheduler.running)
    whole, growing = engine.jobs
    assert whole.needed == 0
    assert 0 < growing.needed < len(f"[de] {text}")
    for room in ("a", "b"):
        await hub.forget(room)


async def test_a_socket_whose_key_expires_is_told_and_closed_with_4401() -> None:
    clock = [100.0]
    hub = Hub(RoomHost(ScriptedEngine(), Limits(), wall=lambda: clock[0]))
    for_ever = hub.open(ConnectRequest(room="r"))
    session = hub.open(ConnectRequest(room="r", permissions=Permissions(until=160.0)))
    hub.sweep()
    assert current(session.outbox.closing) is None
    clock[0] = 160.0
    hub.sweep()
    hub.sweep()
    assert session.outbox.closing is CloseCode.UNAUTHENTICATED
    last = [json.loads(frame) for frame in session.outbox.take()][-1]
    assert (last["code"], last["fatal"]) == ("unauthenticated", True)
    assert for_ever.outbox.closing is None


async def test_a_connection_beyond_its_permissions_is_forbidden() -> None:
    hub = Hub(RoomHost(ScriptedEngine(), Limits()))
    for seat in (
        ConnectRequest(room="a", permissions=Permissions(rooms=("b",))),
        ConnectRequest(permissions=Permissions(rooms=("b",))),
        ConnectRequest(room="b", role=Role.SPEAK, permissions=Permissions(role=Role.VIEW)),
    ):
        with pytest.raises(ClientFault) as caught:
            hub.open(seat)
        assert caught.value.code is ErrorCode.FORBIDDEN
    assert not hub.rooms


async def test_a_room_keeps_its_tenant_during_the_grace_period() -> None:
    engine = ScriptedEngine()
    await engine.start()
    engine.hold()
    hub = Hub(RoomHost(engine, Limits(), text=TextOptions(flow=EAGER)))
    hub.scheduler.capacity = 1
    seat = ConnectRequest(room="r", targets=("de",), permissions=Permissions(tenant="a"))
    speaker = hub.open(seat)
    hub.receive(speaker, "said before")
    hub.receive(speaker, '{"type":"say","id":"x","text":"we met","final":false}')
    assert (hub.scheduler.running, hub.scheduler.queued) == (1, 1)
    hub.leave(speaker, lost=True)
    hub.close(speaker)
    hub.open(ConnectRequest(room="r", targets=("de",), permissions=Permissions(tenant="b")))
    assert hub.rooms["r"].captioner.builder.tenant == "a"
    back = hub.open(msgspec.structs.replace(seat, session=speaker.id))
    hub.receive(back, '{"type":"say","id":"x","rev":2,"text":"we met in","final":false}')
    assert back.errors == 0
    engine.release()
    await hub.forget("r")


async def test_utterances_of_a_deleted_room_no_longer_count_for_its_tenant() -> None:
    engine = ScriptedEngine()
    await engine.start()
    engine.hold()
    hub = Hub(RoomHost(engine, Limits()))
    permissions = Permissions(tenant="a", quota=Quota(inflight=1))
    stays = hub.open(ConnectRequest(room="other", targets=("de",), permissions=permissions))
    lost = hub.open(ConnectRequest(room="r", targets=("de",), permissions=permissions))
    hub.receive(lost, "hello")
    hub.leave(lost, lost=True)
    hub.close(lost)
    await hub.forget("r")
    hub.receive(stays, "hello")
    assert (stays.errors, len(stays.member.in_flight.utterances)) == (0, 1)
    engine.release()
    await hub.forget("other")


async def test_a_resume_token_is_valid_for_two_hours_at_most() -> None:
    hub = Hub(RoomHost(ScriptedEngine(), Limits()))
    begun = hub.wall()
    session = hub.open(ConnectRequest(room="r", targets=("de",)))
    welcome = read(session.outbox.take()[0])
    assert isinstance(welcome, Welcome)
    hub.wall = lambda: begun + 7_199
    assert hub.recognise(welcome.resume, "r") is not None
    hub.wall = lambda: begun + 7_201
    assert hub.recognise(welcome.resume, "r") is None


async def test_permissions_for_many_rooms_and_many_languages_fit_into_a_resume_token() -> None:
    hub = Hub(RoomHost(ScriptedEngine(), Limits()))
    rooms = tuple(f"the-weekly-meeting-of-department-{n:03}" for n in range(250))
    seat = ConnectRequest(
        room=rooms[7], targets=("de",) * 9_000, permissions=Permissions(key="k", rooms=rooms)
    )
    session = hub.open(seat)
    welcome = read(session.outbox.take()[0])
    assert isinstance(welcome, Welcome)
    place = hub.recognise(welcome.resume, None)
    assert place is not None and place.permissions == seat.permissions
    assert len(place.targets) == Limits().targets + 1
