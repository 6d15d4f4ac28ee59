"""One vLLM engine on the CPU for all tests of this folder, as a start is most of their time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from caption_gateway.testing.subject import EngineSubject
from tests.engines.conftest import STARTS
from tests.engines.vllm_factory import make_vllm
from tests.support.models import tiny_llama


@pytest.fixture(scope="package")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("vllm") / "llama", head=32)


@pytest.fixture(scope="package")
def subject(model: Path) -> Iterator[EngineSubject]:
    with EngineSubject(lambda: make_vllm(model), STARTS["vllm"]) as subject:
        yield subject
