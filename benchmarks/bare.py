"""The minimal handler of `benchmarks.servers` on a port, for comparison.

python -m benchmarks.bare PORT
"""

from __future__ import annotations

import asyncio
import sys

import uvicorn

from benchmarks.servers import bare
from benchmarks.stepper import Stepper
from gateway.server.process.listener import listen
from gateway.server.process.server import configure
from gateway.settings.catalogue import Settings


async def main(port: int) -> None:
    stepper = Stepper()
    await stepper.start()
    server = uvicorn.Server(configure(bare(stepper), Settings()))
    await server.serve(sockets=[listen("127.0.0.1", port)])


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1])))
