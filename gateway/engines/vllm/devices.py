"""The GPUs of vLLM engines: which starts may run side by side, and which GPUs a process sees.

Owns: both. Must not know: engines. vLLM has an argument ``device_ids``, but all engines of one
model share a cache of compiled code, in which version 0.25 keeps the number of the GPU that it was
compiled on: on another GPU the launch of a kernel fails ("CUDA driver error: invalid argument"). So
every process sees its own GPUs only, as number 0 and on.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

from gateway.errors import EngineFault

_starts: dict[asyncio.Future[None], frozenset[int]] = {}
"""Starts under way in this process, with their GPUs; none given: any GPU."""

_environment = threading.Lock()
"""Held while the environment of the process is another one. Engines start in threads."""

_gpus: ContextVar[tuple[int, ...]] = ContextVar("_gpus", default=())
"""GPUs of the engine that is started in this thread."""


@asynccontextmanager
async def alone_on(gpus: tuple[int, ...]) -> AsyncIterator[None]:
    """Wait until no other engine starts on one of these GPUs, and let others wait meanwhile.

    vLLM measures the free memory of a GPU at its start, and counts what another start has taken
    since as its own.
    """
    own = frozenset(gpus)
    while others := [
        start for start, taken in _starts.items() if not (own and taken and own.isdisjoint(taken))
    ]:
        await asyncio.wait(others)
    start = asyncio.get_running_loop().create_future()
    _starts[start] = own
    token = _gpus.set(gpus)  # threads that are started here inherit it
    try:
        yield
    finally:
        _gpus.reset(token)
        del _starts[start]
        start.set_result(None)


def confine(core_client: Any, variable: str) -> None:
    """Have vLLM start the processes of an engine with only its GPUs in their environment.

    :param core_client: module ``vllm.v1.engine.core_client``
    :param variable: environment variable of the GPUs that a process sees
    """
    launch = core_client.launch_core_engines
    if not hasattr(launch, "confined"):
        core_client.launch_core_engines = _confined(launch, variable)


def _confined(
    launch: Callable[..., AbstractContextManager[Any]], variable: str
) -> Callable[..., AbstractContextManager[Any]]:
    """Return a context manager that starts processes, and then waits for them, like ``launch``."""

    @contextmanager
    def confined(*args: Any, **options: Any) -> Iterator[Any]:
        with ExitStack() as stack:
            with _environment:
                seen = os.environ.get(variable)
                if gpus := _gpus.get():
                    os.environ[variable] = visible(gpus, os.environ, variable)
                try:
                    started = stack.enter_context(launch(*args, **options))
                finally:
                    os.environ.pop(variable, None)
                    if seen is not None:
                        os.environ[variable] = seen
            yield started

    confined.confined = True  # type: ignore[attr-defined]
    return confined


def visible(gpus: tuple[int, ...], environ: Mapping[str, str], variable: str) -> str:
    """Return the value of the variable for some of the GPUs that the process itself sees. Raises
    `EngineFault` if it sees fewer.
    """
    seen = [number for number in environ.get(variable, "").split(",") if number]
    if seen and max(gpus) >= len(seen):
        raise EngineFault(f"There is no GPU {max(gpus)}: {variable} is {','.join(seen)}.")
    return ",".join(seen[gpu] if seen else str(gpu) for gpu in gpus)
