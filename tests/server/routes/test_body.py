"""The body of a request: JSON, a form, or the parameters of the query."""

from __future__ import annotations

import pytest

from tests.support.live import browse

FIELDS = {"q": "Grüße, 字幕 & more", "source": "de", "target": "en"}
TRANSLATED = {"translatedText": "[en] Grüße, 字幕 & more"}


async def test_json_a_form_a_multipart_form_and_the_query_mean_the_same() -> None:
    async with browse() as (client, _):
        parts = {name: (None, value) for name, value in FIELDS.items()}
        for answer in (
            await client.post("/translate", json=FIELDS),
            await client.post("/translate", data=FIELDS),
            await client.post("/translate", files=parts),
            await client.post("/translate", params=FIELDS),
            await client.post("/translate", params={"target": "en"}, data={**FIELDS, "target": []}),
        ):
            assert answer.json() == TRANSLATED


async def test_a_field_that_is_repeated_is_a_list() -> None:
    async with browse() as (client, _):
        fields = {**FIELDS, "q": ["one", "two"]}
        for answer in (
            await client.post("/translate", data=fields),
            await client.post("/translate", params=fields),
        ):
            assert answer.json() == {"translatedText": ["[en] one", "[en] two"]}
        answer = await client.post("/translate", data={**FIELDS, "target": ["de", "en"]})
        assert answer.status_code == 400 and "target" in answer.json()["error"]


async def test_numbers_and_switches_of_a_form_are_text() -> None:
    async with browse() as (client, _):
        answer = await client.post("/translate", data={**FIELDS, "alternatives": "2"})
        assert answer.json()["alternatives"] == []
        form = {"text": "hi", "source_lang": "en", "target_lang": "de", "stream": "true"}
        answer = await client.post("/v1/translate", data=form)
        assert answer.headers["content-type"].startswith("text/event-stream")


def part(name: str, value: str) -> bytes:
    """Return a part of a multipart form with the boundary ``x``."""
    return f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


@pytest.mark.parametrize(
    ("content_type", "content"),
    [
        ("multipart/form-data", b"--x\r\n"),
        ("multipart/form-data; boundary=x", b"nonsense"),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="q"; filename="a.txt"\r\n\r\n1\r\n--x--',
        ),
        ("multipart/form-data; boundary=x", b"--x\r\n" * 9_000),
        (
            "multipart/form-data; boundary=x; charset=unicode_escape",
            part("q", "\\ud800") + part("source", "en") + part("target", "de") + b"--x--",
        ),
        ("multipart/form-data; boundary=x", part("q", "1") * 101 + b"--x--"),
        ("application/x-www-form-urlencoded", b"q=%ff\xff"),
        ("application/x-www-form-urlencoded", b"a=&" * 101),
        ("application/json", b"q=1"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused_with_an_example(
    content_type: str, content: bytes
) -> None:
    async with browse() as (client, live):
        answer = await client.post(
            "/translate", content=content, headers={"content-type": content_type}
        )
        assert answer.status_code == 400, answer.text
        assert answer.json()["code"] == "bad_frame" and '"q"' in answer.json()["hint"]
        assert not live.hub.sessions
