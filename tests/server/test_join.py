"""The QR code of a room's join page."""

from __future__ import annotations

import httpx2 as httpx
import segno

from gateway.server import join
from tests.live import Live


def test_the_code_is_of_the_join_page_at_the_address_that_was_asked(live: Live) -> None:
    answer = httpx.get(live.http + "/v1/rooms/demo-1/qr.svg")
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert answer.content == join.picture(f"{live.http}/join.html?room=demo-1")


def test_a_code_is_a_real_one_that_a_camera_can_read_with_a_spot_on_it() -> None:
    address = "https://captions.example/join.html?room=raha-soga-73"
    code = segno.make_qr(address, error="m")
    assert code.error in ("M", "Q", "H")
    assert join.picture(address).count(b"<path") == 2


def test_a_name_that_no_room_can_have_has_no_code(live: Live) -> None:
    assert httpx.get(live.http + "/v1/rooms/~secret/qr.svg").status_code == 404
