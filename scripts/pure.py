"""The pure folders of `gateway/`: no clock, randomness, task, socket, file or model.

`tests/test_layers.py` checks that, and `make pure` holds their branch coverage at 100 %. The script
prints the files for ``coverage report --include`` or, with ``tests``, the files of their tests.
"""

import sys
from pathlib import Path

FOLDERS = (
    ".",
    "auth",
    "cli/loadtest/model",
    "cli/plan/model",
    "cli/replay/analysis",
    "cli/replay/meeting",
    "cli/report",
    "cli/top/model",
    "cli/tune/model",
    "client/state",
    "core",
    "core/base",
    "core/captions",
    "core/delivery",
    "core/history",
    "core/members",
    "core/recognition",
    "core/replication",
    "core/room",
    "core/scheduling",
    "core/session",
    "core/streaming",
    "core/utterances",
    "engines/guards",
    "engines/profiles",
    "protocol",
    "server/openai_api",
    "server/realtime",
    "storage",
    "text",
    "transcripts",
)

if __name__ == "__main__":
    if sys.argv[1:] == ["tests"]:
        tests = [
            str(path)
            for folder in FOLDERS
            for path in sorted(Path("tests", folder).glob("test_*.py"))
        ]
        print(*tests)
    else:
        patterns = ("gateway/*.py" if f == "." else f"gateway/{f}/*.py" for f in FOLDERS)
        files = (str(path) for pattern in patterns for path in Path().glob(pattern))
        print(",".join(sorted(set(files) - {"gateway/__main__.py"})))
