"""`gateway` with the garbage collector as CPython has it, for comparison.

    python -m benchmarks.plain serve ...

It still times pauses, and freezes the objects that exist when the engine is ready.
"""

from __future__ import annotations

import gc
import sys

from gateway.cli.main import main
from gateway.server.runtime import gc_tuning

DEFAULT = gc.get_threshold()


class Plain(gc_tuning.GarbageCollector):
    """A garbage collector with CPython's own thresholds."""

    def __enter__(self) -> Plain:
        super().__enter__()
        gc.set_threshold(*DEFAULT)
        return self


if __name__ == "__main__":
    from gateway.server.process import serve

    gc_tuning.SETTLE = 0
    setattr(serve, "GarbageCollector", Plain)  # noqa: B010  # the module imports it by name
    sys.exit(main())
