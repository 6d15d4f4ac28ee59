"""Packages that only some commands need, of the extra ``tools``.

Owns: the error message if one is missing. Must not know: what a package is used for.
"""

from __future__ import annotations

from importlib.util import find_spec

from gateway.settings.catalogue import SettingsError


def need(package: str, what: str) -> None:
    """Raise `SettingsError` with the command to install if a package is missing.

    :param what: flag or command that needs the package, such as ``--html``
    """
    if find_spec(package) is None:
        raise SettingsError(f"{what} needs {package}: pip install 'caption-gateway[tools]'.")
