"""Capacity planning: engines, gateway cores and Redis for a number of meetings."""
