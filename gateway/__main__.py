"""The command ``gateway``, and ``python -m gateway``.

Owns: that Ctrl-C ends it without a word while its modules are read, which takes up to a second on a
busy machine. Must not know: commands.
"""

import signal
import sys


def start() -> int:
    """Read the command line and do what it says; the exit status."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else somebody wants it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gateway.cli.main import main

    signal.signal(signal.SIGINT, usual)
    return main()


if __name__ == "__main__":
    sys.exit(start())
