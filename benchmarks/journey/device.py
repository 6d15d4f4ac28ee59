"""Use of the device, ten times a second: a GPU by NVML, else CPUs by some processes.

Owns: the queries, and their thread. Must not know: the processes' purpose.

NVML is called through its C library, which comes with the driver, because the Python package for it
is not always there. It reports the share of the last tenth to second in which any kernel ran.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

STEP_S = 0.1
"""Seconds between two samples."""
MOST = 72_000
"""Samples that are kept: two hours."""
TICKS = os.sysconf("SC_CLK_TCK")
KIN_S = 1.0
"""Seconds after which the list of processes is read again."""


class Rates(ctypes.Structure):
    """``nvmlUtilization_t``."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Gpu:
    """One NVIDIA GPU. Raises `OSError` if there is none, or no driver."""

    def __init__(self, number: int = 0) -> None:
        self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self._device = ctypes.c_void_p()
        if self._nvml.nvmlInit_v2() or self._nvml.nvmlDeviceGetHandleByIndex_v2(
            ctypes.c_uint(number), ctypes.byref(self._device)
        ):
            raise OSError("NVML does not find the GPU.")
        name = ctypes.create_string_buffer(96)
        self._nvml.nvmlDeviceGetName(self._device, name, ctypes.c_uint(96))
        self.name = name.value.decode("utf-8", "replace")

    def share(self) -> float:
        """Return the share in use in the last sample period, from 0 to 1."""
        rates = Rates()
        if self._nvml.nvmlDeviceGetUtilizationRates(self._device, ctypes.byref(rates)):
            raise OSError("NVML does not tell how much the GPU is used.")
        return float(rates.gpu) / 100


class Cpus:
    """The CPUs of this machine, as far as a process and its children use them."""

    def __init__(self, pid: int, cpus: int) -> None:
        self.name = f"{cpus} CPUs"
        self._pid = pid
        self._cpus = cpus
        self._kin: set[int] = set()
        self._looked = -KIN_S
        self._spent: dict[int, float] = {}
        self._at = time.monotonic()

    def share(self) -> float:
        """Return the share in use since the last call, from 0 to 1."""
        now = time.monotonic()
        if now - self._looked >= KIN_S:
            self._kin, self._looked = family(self._pid), now
        before, passed = self._spent, now - self._at
        # A process that is new has spent what it has spent before it was known: not in this step.
        self._spent = {pid: spent for pid in self._kin if (spent := cpu(pid)) is not None}
        self._at = now
        used = sum(spent - before.get(pid, spent) for pid, spent in self._spent.items())
        return min(1.0, max(0.0, used / passed / self._cpus)) if passed > 0 else 0.0


class Sampler:
    """A thread that samples a share every `STEP_S`, from `start` to `stop`."""

    def __init__(self, ask: Callable[[], float]) -> None:
        self._ask = ask
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="device", daemon=True)
        self._taken: list[tuple[float, float]] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def between(self, begin: float, end: float) -> list[float]:
        """Return the use between two moments of the monotonic clock."""
        return [share for at, share in self._taken if begin < at <= end]

    def _run(self) -> None:
        while not self._end.wait(STEP_S) and len(self._taken) < MOST:
            try:
                self._taken.append((time.monotonic(), self._ask()))
            except OSError:
                return  # the device has gone; the cells have no more figures of it


def family(pid: int) -> set[int]:
    """Return a process and all its descendants."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(path.parent.name)] = int(fields[1])
    found, new = {pid}, {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


def runs(pid: int) -> bool:
    """Return whether a process exists and has not ended, even if its parent has not noticed."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def gone(pids: Iterable[int], seconds: float) -> bool:
    """Wait until none of these processes runs, for a limited time. Return whether so. Blocks."""
    until = time.monotonic() + seconds
    while any(map(runs, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def cpu(pid: int) -> float | None:
    """Return the CPU seconds that a process has used; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS
