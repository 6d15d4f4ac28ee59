"""The pure folders of the gateway and the tools: no clock, randomness, task, socket, file or model.

`tests/test_layers.py` checks that, and `make pure` holds their branch coverage at 100 %. The script
prints the files for ``coverage report --include`` or, with ``tests``, the files of their tests.
"""

import sys
from pathlib import Path

FOLDERS = (
    ".",
    "auth",
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
    "core/transcripts",
    "core/utterances",
    "engines/guards",
    "engines/profiles",
    "protocol",
    "server/openai_api",
    "server/realtime",
    "storage",
    "text",
)
TOOLS = (
    "loadtest/model",
    "plan/model",
    "replay/analysis",
    "replay/meeting",
    "report",
    "speech",
    "top/model",
    "tune/model",
)
"""Folders of ``tools/caption_tools``, whose tests are in ``tests/tools``."""

PACKAGES = (
    (Path("gateway"), Path("tests"), FOLDERS),
    (Path("tools/caption_tools"), Path("tests/tools"), TOOLS),
)

if __name__ == "__main__":
    found: list[Path] = []
    for package, tests, folders in PACKAGES:
        for folder in folders:
            if sys.argv[1:] == ["tests"]:
                found += (tests / folder).glob("test_*.py")
            else:
                found += (package / folder).glob("*.py")
    if sys.argv[1:] == ["tests"]:
        print(*sorted(map(str, found)))
    else:
        print(",".join(sorted(map(str, {*found} - {Path("gateway/__main__.py")}))))
