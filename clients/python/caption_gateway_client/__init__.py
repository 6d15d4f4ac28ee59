"""The Python client of Caption Gateway. `connect` opens a connection.

The classes of the events are in `caption_gateway_client.messages`.
"""

from caption_gateway_client.client import (
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
    "Captions",
    "Client",
    "ConnectionLost",
    "Disconnected",
    "NotTranslated",
    "ReaderCaption",
    "Refused",
    "connect",
]
