"""Entry point of the command ``gateway`` and of ``python -m gateway``.

Owns: the handling of Ctrl-C while modules are imported, which takes up to a second on a busy
machine. Must not know: commands.
"""

import signal
import sys


def start() -> int:
    """Run the command line and return its exit status."""
    usual = signal.getsignal(signal.SIGINT)
    # A parent process may have set it to be ignored; that must stay so.
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gateway.cli.main import main

    signal.signal(signal.SIGINT, usual)
    return main()


if __name__ == "__main__":
    sys.exit(start())
