"""Requests that the gateway makes itself."""
