"""Priority of the threads that decode and recognise.

Owns: how much lower it is than that of the rest of the process. Must not know: what they do.
"""

from __future__ import annotations

import os
import sys
import threading

NICENESS = 5
"""Steps below the rest of the process: under load the threads get a third of the time of the
others."""
LOWEST = 19


def yield_to_others() -> None:
    """Lower the priority of the present thread. Linux alone has priorities of threads."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        # Threads that it starts later inherit the priority, those of CTranslate2 too. A thread of a
        # process that is nice already becomes nicer still: no user may take that back.
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
        os.setpriority(os.PRIO_PROCESS, thread, min(niceness, LOWEST))
