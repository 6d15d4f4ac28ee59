"""The tests of the contract, run against every engine of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from caption_gateway.testing import EngineContract, EngineSubject
from tests.engines.conftest import ENGINES, MARKS, STARTS


class TestEngine(EngineContract):
    @pytest.fixture(
        scope="class",
        params=[pytest.param(name, marks=MARKS.get(name, ())) for name in ENGINES],
    )
    @classmethod
    def subject(
        cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[EngineSubject]:
        make, dir = ENGINES[request.param], tmp_path_factory.mktemp(request.param)
        start_s = STARTS.get(request.param, cls.start_s)
        with ExitStack() as stack:
            with EngineSubject(lambda: stack.enter_context(make(dir)), start_s) as subject:
                yield subject
