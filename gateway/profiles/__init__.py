"""Model profiles: how each model is prompted, as data.

To teach the gateway a model, write a TOML file beside this one and golden prompts
(``tests/golden/prompts``); ``docs/design/profiles.md`` explains the keys. Owns: the names that the
rest of the gateway uses. Must not know: anything else.
"""

from gateway.profiles.find import LAST_RESORT, UnknownProfile, load, match, names
from gateway.profiles.profile import (
    LEAST,
    Block,
    Control,
    Models,
    Output,
    Profile,
    Prompt,
    Sampling,
    Turns,
)

__all__ = [
    "LAST_RESORT",
    "LEAST",
    "Block",
    "Control",
    "Models",
    "Output",
    "Profile",
    "Prompt",
    "Sampling",
    "Turns",
    "UnknownProfile",
    "load",
    "match",
    "names",
]
