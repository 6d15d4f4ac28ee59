"""The metadata of a distribution that depend on where the repository is published.

Owns: the addresses of the project and, on its page in a package index, of the links in README.md.
Must not know: the address itself. It is the variable `URL` at the time of the build, because the
same files may be published from several places; `make dist URL=https://...` sets it.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

URL = "CAPTION_GATEWAY_URL"
"""Variable with the address of the repository, such as ``https://example.org/us/gateway``."""

LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)")
"""The beginning of a link or an image whose target is a file of the repository."""


class ProjectAddresses(MetadataHookInterface):
    """Adds the addresses of the project, and makes the links of its README absolute."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the fields that pyproject.toml calls dynamic."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        if url := os.environ.get(URL, "").rstrip("/"):
            files = f"{url}/blob/v{metadata['version']}"
            metadata["urls"] = {
                "Homepage": url,
                "Documentation": f"{files}/docs/index.md",
                "Changelog": f"{files}/CHANGELOG.md",
                "Issues": f"{url}/issues",
            }
            text = absolute(text, url, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute(text: str, url: str, tag: str) -> str:
    """Return Markdown whose links to files lead to the repository, as it is at a tag."""

    def lead(link: re.Match[str]) -> str:
        return f"{link[1]}{link[2]}{url}/{'raw' if link[1] else 'blob'}/{tag}/"

    return LINK.sub(lead, text)
