"""Meetings in files, and the simulated speech recogniser that fills them in."""
