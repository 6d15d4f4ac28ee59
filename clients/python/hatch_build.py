"""The client's code, taken from the gateway when a wheel or an sdist is built.

Owns: which files of the gateway are the client, and their names in it. Imports of ``gateway``
become imports of ``caption_gateway_client``, so that the client works beside any package called
``gateway``, that of the gateway included.
"""

import re
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "caption_gateway_client"
FILES = {
    "gateway/client": "client",
    "gateway/protocol/__init__.py": "protocol/__init__.py",
    "gateway/protocol/audio.py": "protocol/audio.py",
    "gateway/protocol/fields.py": "protocol/fields.py",
    "gateway/protocol/handshake.py": "protocol/handshake.py",
    "gateway/protocol/messages.py": "protocol/messages.py",
    "gateway/protocol/notices.py": "protocol/notices.py",
    "caption_gateway/messages.py": "messages.py",
    "caption_gateway/py.typed": "py.typed",
}
"""Files and folders of the repository, and where they are in the package of the client."""


class ClientFiles(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the renamed files. An sdist has them already, so a wheel made from it adds nothing."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files into a temporary folder, and have the builder include them."""
        root = Path(self.root).parents[1]
        if version == "editable":
            raise ValueError("An editable install is not possible: install the gateway itself so.")
        if not (root / "gateway" / "client").is_dir():
            return
        self._folder = tempfile.TemporaryDirectory()
        for path, text in renamed(root).items():
            file = Path(self._folder.name, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            build_data["force_include"][str(file)] = f"{NAME}/{path}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def renamed(root: Path) -> dict[str, str]:
    """Return the text of every file of the client by its path in the package."""
    files = {}
    for source, target in FILES.items():
        path = root / source
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            name = Path(target, file.relative_to(path)).as_posix()
            text = file.read_text(encoding="utf-8")
            files[name] = re.sub(r"\bgateway\.(client|protocol)\b", rf"{NAME}.\1", text)
    return files
