"""`gateway` with the garbage collector as CPython has it, to compare with.

    python -m benchmarks.plain serve ...

It still looks at the clock, and leaves out what there is when the engine is ready.
"""

from __future__ import annotations

import gc
import sys

from gateway.cli import main
from gateway.server import garbage

DEFAULT = gc.get_threshold()


class Plain(garbage.Garbage):
    """Looks on."""

    def start(self) -> None:
        super().start()
        gc.set_threshold(*DEFAULT)


if __name__ == "__main__":
    from gateway.server import process

    garbage.SETTLE = 0
    process.Garbage = Plain  # type: ignore[misc]
    sys.exit(main())
