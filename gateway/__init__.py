"""A real-time translation gateway: typed or spoken lines in, streamed captions out."""

__version__ = "0.1.0"
