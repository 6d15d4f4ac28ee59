"""Ports for servers that a test starts as processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from benchmarks import ports


def test_a_free_port_is_none_that_the_kernel_gives_to_other_sockets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as any_port:
        assert ports.free_port() < 32_768 <= any_port.getsockname()[1]


def test_a_port_is_not_returned_again_soon_or_while_something_listens_on_it() -> None:
    first = ports.free_port()
    with socket.create_server(("127.0.0.1", first)):
        later = [ports.free_port() for _ in range(ports.EACH)]
    assert first not in later
    assert len(set(later)) >= ports.EACH // 2


def test_a_process_whose_id_leads_to_the_same_ports_takes_others() -> None:
    code = "import os, sys; os.getpid = lambda: int(sys.argv[1])\n"
    code += "from benchmarks import ports; print(ports.free_port())"
    ours = ports.free_port()
    command = [sys.executable, "-c", code, str(os.getpid() + ports.BLOCKS)]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(theirs.stdout) // ports.EACH != ours // ports.EACH
