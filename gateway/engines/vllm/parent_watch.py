"""A plugin of vLLM's processes: it ignores Ctrl-C in them and ends them with the gateway.

Owns: a function that vLLM calls in each of its processes, through the entry point group
``vllm.general_plugins``. Must not know: the gateway, vLLM. The module imports nothing of either,
because it is loaded in every vLLM process of this environment.

A gateway that is killed (SIGKILL, out of memory) leaves EngineCore running with the GPU's memory,
so that the next gateway cannot start (vllm#55510). The plugin works in spawned processes, which
`gateway.engines.vllm.engine` asks for. A forked process inherits the mark that plugins are loaded,
and does not load this one. If ``VLLM_PLUGINS`` is set, it has to list ``caption_gateway_orphan``.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.process import BaseProcess

GRACE = 5.0
"""Seconds between SIGTERM and the forced end of the process."""


def watch() -> None:
    """Start a thread that ends this process after its parent. Do nothing without a parent."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    # A terminal sends Ctrl-C to its whole process group. vLLM's workers would end at once, but the
    # gateway lets running sentences finish and then ends the workers itself.
    os.setpgid(0, 0)
    threading.Thread(target=follow, args=(parent,), name="parent watch", daemon=True).start()


def follow(parent: BaseProcess) -> None:
    """Wait for the end of ``parent``, then end this process."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)  # vLLM finishes its step and frees the device
    time.sleep(GRACE)
    os._exit(1)  # SIGTERM was not enough
