"""Rooms, sessions and captions: every decision of the gateway. Pure."""
