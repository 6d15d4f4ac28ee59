"""Model profiles: the prompt format of each model, as data.

To add a model, write a TOML file in this folder and golden prompts (``tests/golden/prompts``).
``docs/design/profiles.md`` explains the keys. Owns: the names that the rest of the gateway uses.
Must not know: anything else.
"""

from gateway.engines.profiles.find import UnknownProfile, load, match, names
from gateway.engines.profiles.profile import (
    MIN_CONTINUATION,
    Control,
    Output,
    Profile,
    Prompt,
    Sampling,
    TemplateBlock,
)

__all__ = ["MIN_CONTINUATION", "Control", "Output", "Profile", "Prompt", "Sampling"]
__all__ += ["TemplateBlock", "UnknownProfile", "load", "match", "names"]
