"""Priority of the threads that decode and recognise."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from gateway.io.tasks import LOWEST, NICENESS, yield_to_others

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems have no priority of threads"
)


@pytest.mark.parametrize("nicer", [0, 10, 30])
def test_a_thread_becomes_nicer_than_its_process_however_nice_that_is(nicer: int) -> None:
    seen: list[int] = []

    def work() -> None:
        thread = threading.get_native_id()
        before = min(LOWEST, os.getpriority(os.PRIO_PROCESS, thread) + nicer)
        os.setpriority(os.PRIO_PROCESS, thread, before)
        yield_to_others()
        seen.extend((before, os.getpriority(os.PRIO_PROCESS, thread)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    before, after = seen
    assert after == min(LOWEST, before + NICENESS)
