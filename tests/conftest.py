"""Fixtures that every test may use."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from httpx2._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, Phase, settings

from gateway.client.state import backoff
from gateway.engines.openai import server
from tests.support.disk import Disk
from tests.support.live import Live, in_thread

# The same examples on every run: what fails here fails for everybody, and no machine is too slow.
# ``make search`` looks for new ones.
settings.register_profile(
    "check",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search", settings.get_profile("check"), derandomize=False, max_examples=1000
)
# A mutation run only has to see that a test fails, thousands of times: no example is made small.
settings.register_profile(
    "mutation",
    settings.get_profile("check"),
    max_examples=20,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "check"))

# A shell without job control ignores SIGINT for what it runs in the background, and processes that
# tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# httpx gives up after 5 seconds, an engine cannot connect after 3, and machines of CI stop for
# seconds. Each test has a limit anyway.
for part in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, part, None)
server.CONNECT_TIMEOUT = 30.0

NEVER_SKIP = os.environ.get("GATEWAY_TESTS_SKIP") == "never"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With GATEWAY_TESTS_SKIP=never a skipped test has failed: nothing goes missing unseen."""
    report = yield
    if report.skipped and NEVER_SKIP:
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """And so has a file that is skipped as a whole."""
    report = yield
    if report.skipped and NEVER_SKIP:
        report.outcome = "failed"
    return report


@pytest.fixture(scope="session")
def live() -> Iterator[Live]:
    """Run a gateway on a scripted engine, shared by the tests that only talk to it."""
    with in_thread() as gateway:
        yield gateway


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """Return a file for rooms, and the stores that open it."""
    return Disk(tmp_path)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's own environment is a setting."""
    for name in list(os.environ):
        if name.startswith("GATEWAY_") or name == "PORT":
            monkeypatch.delenv(name)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients reconnect at once."""
    monkeypatch.setattr(backoff, "BASE_S", 0.005)
    monkeypatch.setattr(backoff, "CAP_S", 0.05)
