"""Two real vLLM servers for all tests of this folder, as their start is most of the time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.openai.vllm_server import vllm_servers


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with vllm_servers(tmp_path_factory.mktemp("served"), 2) as urls:
        yield urls
