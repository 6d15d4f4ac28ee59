"""Timed meetings played to a gateway, recordings of rooms, and measurements of captions."""
