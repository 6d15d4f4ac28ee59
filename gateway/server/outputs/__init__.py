"""Outputs: HTTP requests that carry the durable events of rooms to other services."""
