"""The public names of Caption Gateway: ``from caption_gateway import connect``.

Owns: which names are public. `docs/reference/versions.md` says what is promised about them. Must
not know: how anything works; all code but the tests of engines (`testing`) is in `gateway`, whose
modules may move at any time.

A name is imported when it is first used, so that a client does not load the server.
"""

from __future__ import annotations

from importlib import import_module
from os.path import dirname
from typing import TYPE_CHECKING, Any

import gateway

if TYPE_CHECKING:
    from gateway import __version__
    from gateway.client import (
        Captions,
        Client,
        ConnectionLost,
        Disconnected,
        NotTranslated,
        ReaderCaption,
        Refused,
        connect,
    )
    from gateway.errors import EngineFault, GatewayError
    from gateway.server.app import GatewayApp
    from gateway.server.build import gateway_app
    from gateway.settings.catalogue import Settings, SettingsError
    from gateway.settings.loading import LoadedSettings
    from gateway.settings.loading import load as load_settings

# `gateway` is a common name. If a program has a module of that name as well, Python finds only one
# of the two, and the other would fail later, with a message about a missing submodule.
if dirname(dirname(gateway.__file__)) != dirname(dirname(__file__)):
    raise ImportError(
        "caption_gateway needs its own package gateway, but Python found another one first:"
        f" {gateway.__file__}. Rename yours. A program that needs only the"
        " client can use caption-gateway-client instead, which has no package of that name."
    )

__all__ = [
    "Captions",
    "Client",
    "ConnectionLost",
    "Disconnected",
    "EngineFault",
    "GatewayApp",
    "GatewayError",
    "LoadedSettings",
    "NotTranslated",
    "ReaderCaption",
    "Refused",
    "Settings",
    "SettingsError",
    "__version__",
    "connect",
    "gateway_app",
    "load_settings",
]

_PLACES = {
    "EngineFault": "gateway.errors",
    "GatewayApp": "gateway.server.app",
    "GatewayError": "gateway.errors",
    "LoadedSettings": "gateway.settings.loading",
    "Settings": "gateway.settings.catalogue",
    "SettingsError": "gateway.settings.catalogue",
    "__version__": "gateway",
    "gateway_app": "gateway.server.build",
    "load_settings": "gateway.settings.loading:load",
}
"""Places of the public names, as ``module`` or ``module:name``. Other names are in
`gateway.client`."""


def __getattr__(name: str) -> Any:
    """Return a public name, which is imported at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, other = _PLACES.get(name, "gateway.client").partition(":")
    found = getattr(import_module(module), other or name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return __all__
