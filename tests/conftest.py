"""Fixtures that every test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import recovery
from tests.disk import Disk
from tests.live import Live, in_thread

NEVER_SKIP = os.environ.get("GATEWAY_TESTS_SKIP") == "never"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """With GATEWAY_TESTS_SKIP=never a skipped test has failed: nothing goes missing unseen."""
    report: pytest.TestReport = yield
    if report.skipped and NEVER_SKIP:
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    """And so has a file that is skipped as a whole."""
    report: pytest.CollectReport = yield
    if report.skipped and NEVER_SKIP:
        report.outcome = "failed"
    return report


@pytest.fixture(scope="session")
def live() -> Iterator[Live]:
    """A gateway on a scripted engine, shared by the tests that only talk to it."""
    with in_thread() as gateway:
        yield gateway


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """A file for rooms, and whoever opens it."""
    return Disk(tmp_path)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's own environment is a setting."""
    for name in list(os.environ):
        if name.startswith("GATEWAY_") or name == "PORT":
            monkeypatch.delenv(name)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that comes back does so at once."""
    monkeypatch.setattr(recovery, "BASE_S", 0.005)
    monkeypatch.setattr(recovery, "CAP_S", 0.05)
