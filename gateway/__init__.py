"""A real-time translation gateway: it turns typed or spoken text into streamed captions."""

__version__ = "0.1.0"
