"""Rows of the store: encoding of events, and restoring a log from rows."""

from __future__ import annotations

import json

import pytest

from gateway.core.history.event_log import Durable, LogEntry
from gateway.limits import Limits
from gateway.protocol.messages import Final, Retracted, Source, Timing
from gateway.protocol.messages import Settings as Changed
from gateway.storage import schema
from gateway.storage.base import StoreFault
from tests.support.disk import Disk, texts


async def test_every_field_of_an_event_is_restored(disk: Disk) -> None:
    events: list[Durable] = [
        Source(
            seq=1,
            id="u1",
            rev=2,
            ord=1,
            lang="en",
            text='nul \0 "quoted"\n\U0001f600',
            speaker="Ana",
            t0=0.5,
            t1=1.25,
        ),
        Final(
            seq=2,
            id="u1",
            rev=2,
            ord=1,
            lang="ja",
            text="おはよう",
            by="mt",
            ms=Timing(queue=1, first=2, total=3),
            flags=("numbers",),
        ),
        Changed(seq=3, version=1, glossary={"a": "b", "c": {"de": "d"}}, from_="de", session="s1"),
        Retracted(seq=4, id="u2", ord=2),
    ]

    async with disk.open() as store:
        log = await store.claim("meeting")
        for event in events:
            log.append(event, disk.time.clock())
    async with disk.open() as store:
        assert (await store.claim("meeting")).since(0) == events


async def test_events_of_a_newer_gateway_with_fields_unknown_here_are_read(disk: Disk) -> None:
    async with disk.open() as store:
        disk.say(await store.claim("meeting"))
    disk.sql("UPDATE events SET body = json_set(body, '$.mood', 'glad')")
    async with disk.open() as store:
        assert texts(await store.claim("meeting")) == ["good morning"]


@pytest.mark.parametrize(
    ("body", "left"),
    [(json.dumps({"type": "sung", "seq": 3}), 2), ("3", 2), (None, 2)],
)
async def test_a_restored_log_begins_behind_an_unreadable_or_missing_event(
    disk: Disk, caplog: pytest.LogCaptureFixture, body: str | None, left: int
) -> None:
    async with disk.open() as store:
        disk.say(await store.claim("meeting"), times=5)
    if body is None:
        disk.sql("DELETE FROM events WHERE seq = 3")
    else:
        disk.sql("UPDATE events SET body = ? WHERE seq = 3", body)
    async with disk.open() as store:
        log = await store.claim("meeting")
        assert [entry.event.seq for entry in log.entries()] == [4, 5]
        assert log.since(2) is None
        assert "of a room cannot be restored" in caplog.text


async def test_numbers_continue_even_if_the_last_event_cannot_be_read(disk: Disk) -> None:
    async with disk.open() as store:
        disk.say(await store.claim("meeting"), times=5)
    disk.sql("UPDATE events SET body = '{}' WHERE seq = 5")
    disk.sql("UPDATE rooms SET settings = '{}'")
    async with disk.open() as store:
        log = await store.claim("meeting")
        assert (log.seq, len(log), log.settings) == (5, 0, None)
        assert (log.since(5), log.since(4)) == ([], None)
        disk.say(log)
    async with disk.open() as store:
        log = await store.claim("meeting")
        assert isinstance(log.entries()[0], LogEntry)
        assert [entry.event.seq for entry in log.entries()] == [6]


def test_an_empty_log_is_restored_without_a_number() -> None:
    log, unread = schema.restored("e1", [], began=1.0, now=2.0, limits=Limits())
    assert (log.seq, unread) == (0, 0)


def test_a_fault_of_a_store_carries_its_hint() -> None:
    fault = StoreFault("The disk is full.", "Free some space.")
    assert (str(fault), fault.hint) == ("The disk is full.", "Free some space.")


async def test_it_is_kept_which_session_has_said_what(disk: Disk) -> None:
    async with disk.open() as store:
        log = await store.claim("meeting")
        log.authors[1] = "ada"
        disk.say(log)
    async with disk.open() as store:
        assert (await store.claim("meeting")).authors == {1: "ada"}
