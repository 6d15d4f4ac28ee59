"""The Python client. `connect` opens a conversation with a gateway."""

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
