"""What vLLM's processes owe the gateway: to leave Ctrl-C to it, and to end when it is gone.

Owns: a function that vLLM calls in each of its processes, through the entry point group
``vllm.general_plugins``. Must not know: the gateway, vLLM. It imports nothing of either, because
it is loaded in every vLLM process of this environment.

A gateway killed without warning (SIGKILL, out of memory) leaves EngineCore behind: running,
holding the GPU's memory, in the way of the next gateway (vllm#55510). This works where processes
are spawned, as `gateway.engines.vllm.engine` has it. A forked one has inherited the mark that
plugins are loaded, and does not load this one. ``VLLM_PLUGINS``, where it is set, has to list
``caption_gateway_orphan``."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.process import BaseProcess

GRACE = 5.0
"""Seconds between the signal that asks the process to end and the end."""


def watch() -> None:
    """Follow the parent process into its end. Does nothing in a process that is not a child."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    # A terminal sends Ctrl-C to its whole process group. vLLM's worker processes would end on the
    # spot, while the gateway means to let sentences finish; it ends them itself after that.
    os.setpgid(0, 0)
    threading.Thread(target=follow, args=(parent,), name="orphan", daemon=True).start()


def follow(parent: BaseProcess) -> None:
    """Wait for the end of ``parent``, then end this process."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)  # vLLM finishes its step and frees the device
    time.sleep(GRACE)
    os._exit(1)  # it did not: there is nobody left to tell
