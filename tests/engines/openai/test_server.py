"""The address of a model server, and the meaning of its refusals."""

from __future__ import annotations

import pytest

from gateway.engines.openai.server import ModelServer, api_url
from gateway.errors import EngineFault, EngineGone, JobFault, Overloaded


@pytest.mark.parametrize(
    ("url", "base"),
    [
        (" http://10.0.0.7:8000/ ", "http://10.0.0.7:8000/v1"),
        ("https://host/v1", "https://host/v1"),
        ("https://host/gateway/v2/", "https://host/gateway/v2"),
        ("https://host/models", "https://host/models/v1"),
    ],
)
def test_a_url_gets_the_version_that_it_lacks(url: str, base: str) -> None:
    assert str(api_url(url)) == base


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, EngineFault) for status in (401, 403, 404, 500)),
        *((status, JobFault) for status in (400, 413, 422)),
        *((status, Overloaded) for status in (429, 503)),
        *((status, EngineGone) for status in (502, 504)),
    ],
)
async def test_each_status_has_its_fault(status: int, kind: type[EngineFault]) -> None:
    server = ModelServer(
        "http://user:password@host",
        None,
        key_setting="a_key",
        capacity=1,
        connections=1,
        read_timeout=1.0,
    )
    fault = server.fault(status)
    assert type(fault) is kind and fault.status == status
    assert "password" not in server.address + str(fault)
    await server.client.aclose()
