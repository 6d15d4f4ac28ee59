"""The Python client of the gateway. `connect` opens a connection."""

from gateway.client.api import (
    Captions,
    Client,
    ConnectionLost,
    Disconnected,
    NotTranslated,
    ReaderCaption,
    Refused,
    connect,
)

__all__ = [
    "Disconnected",
    "ReaderCaption",
    "Captions",
    "Client",
    "ConnectionLost",
    "NotTranslated",
    "Refused",
    "connect",
]
