"""The QR code of a room's join page."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx2 as httpx
import pytest
import segno

from gateway.auth.origin import AllowedHosts
from gateway.limits import Limits
from gateway.server.access.authenticator import Authenticator
from gateway.server.routes import qr
from tests.support.live import Live, in_thread


def test_the_code_has_the_join_page_under_the_address_of_the_request(live: Live) -> None:
    answer = httpx.get(live.http + "/v1/rooms/demo-1/qr.svg")
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert answer.content == qr.cached(f"{live.http}/join.html?room=demo-1")


def test_a_code_has_error_correction_of_level_m_or_better() -> None:
    address = "https://captions.example/join.html?room=raha-soga-73"
    code = segno.make_qr(address, error="m")
    assert code.error in ("M", "Q", "H")
    assert qr.cached(address).count(b"<path") == 2


def test_an_impossible_room_name_is_answered_404(live: Live) -> None:
    assert httpx.get(live.http + "/v1/rooms/~secret/qr.svg").status_code == 404


def test_a_host_longer_than_any_host_name_is_refused() -> None:
    with in_thread(authenticator=Authenticator(Limits(), hosts=AllowedHosts(["*"]))) as live:
        for length, status in ((qr.HOST, 200), (qr.HOST + 1, 400), (2000, 400)):
            host = {"host": "a" * length}
            answer = httpx.get(live.http + "/v1/rooms/demo/qr.svg", headers=host)
            assert answer.status_code == status


def test_a_code_is_drawn_once_and_in_a_thread(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def make(*args: Any, **options: Any) -> segno.QRCode:
        threads.append(threading.current_thread())
        return made(*args, **options)

    made = segno.make_qr
    monkeypatch.setattr(segno, "make_qr", make)
    loop = asyncio.run_coroutine_threadsafe(_thread(), live.loop).result()
    answers = [httpx.get(live.http + "/v1/rooms/drawn-once/qr.svg").content for _ in "ab"]
    assert answers[0] == answers[1]
    assert len(threads) == 1
    assert loop not in threads


async def _thread() -> threading.Thread:
    return threading.current_thread()


def test_the_token_of_the_request_is_in_the_fragment_of_the_address(live: Live) -> None:
    shown = {"authorization": "Bearer gwk_reader"}
    answer = httpx.get(live.http + "/v1/rooms/demo/qr.svg", headers=shown)
    assert answer.content == qr.draw(f"{live.http}/join.html?room=demo#key=gwk_reader")
    assert b"gwk" not in answer.content
    assert answer.headers["cache-control"] == "no-store"


def test_a_token_that_is_too_long_for_a_code_is_refused(live: Live) -> None:
    shown = {"authorization": "Bearer " + "x" * (qr.TOKEN + 1)}
    assert httpx.get(live.http + "/v1/rooms/demo/qr.svg", headers=shown).status_code == 413
