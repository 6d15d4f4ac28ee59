"""vLLM's own server and gateway processes before it, as one arm of `benchmarks.gpu`.

    python -m benchmarks.remote URL SERVER GATEWAY

``SERVER`` and ``GATEWAY`` are the words after ``python`` of both commands, as JSON, and ``URL`` is
an address at which the first answers once it is ready. Both are children of this process, so that
their CPU time is that of all front ends, including the HTTP server. SIGTERM ends both, the gateway
first.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

from benchmarks import host

LOOK_S = 0.5


def main() -> None:
    url, server, gateway = sys.argv[1:]
    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    running = [subprocess.Popen([sys.executable, *json.loads(server)])]
    try:
        while not ended and running[0].poll() is None and not host.answers(url):
            time.sleep(LOOK_S)
        if not ended and running[0].poll() is None:
            running.append(subprocess.Popen([sys.executable, *json.loads(gateway)]))
        while not ended and all(one.poll() is None for one in running):
            time.sleep(LOOK_S)
    finally:
        for one in reversed(running):
            one.terminate()
            one.wait()


if __name__ == "__main__":
    main()
