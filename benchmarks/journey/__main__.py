"""``python -m benchmarks.journey``."""

import sys

from benchmarks.journey.command import main

if __name__ == "__main__":
    sys.exit(main())
