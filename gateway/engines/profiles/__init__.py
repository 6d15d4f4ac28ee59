"""Model profiles: how each model is prompted, as data.

To teach the gateway a model, write a TOML file beside this one and golden prompts
(``tests/golden/prompts``); ``docs/design/profiles.md`` explains the keys. Owns: the names that the
rest of the gateway uses. Must not know: anything else.
"""

from gateway.engines.profiles.find import LAST_RESORT, UnknownProfile, load, match, names
from gateway.engines.profiles.profile import (
    LEAST,
    ChatTurns,
    Control,
    ModelPatterns,
    Output,
    Profile,
    Prompt,
    Sampling,
    TemplateBlock,
)

__all__ = [
    "LAST_RESORT",
    "LEAST",
    "TemplateBlock",
    "Control",
    "ModelPatterns",
    "Output",
    "Profile",
    "Prompt",
    "Sampling",
    "ChatTurns",
    "UnknownProfile",
    "load",
    "match",
    "names",
]
