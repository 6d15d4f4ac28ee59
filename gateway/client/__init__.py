"""The Python client of the gateway. `connect` opens a connection."""

from gateway.client.api import Client, NotTranslated, connect
from gateway.client.reconnect import Disconnected
from gateway.client.state.captions import Captions, ReaderCaption
from gateway.client.transport import ConnectionLost, Refused

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
