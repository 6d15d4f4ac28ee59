"""The dependencies of the tools, of which the gateway has their own version.

Owns: that version. The tools call modules of the gateway that may change with each release.
"""

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

OTHERS = (
    "picows>=2.3,<3",
    "rich>=13.9,<16",
    "sacrebleu>=2.5,<3",
)


class GatewayVersion(MetadataHookInterface):
    """Adds the dependencies."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field that pyproject.toml calls dynamic."""
        metadata["dependencies"] = [f"caption-gateway=={metadata['version']}", *OTHERS]
