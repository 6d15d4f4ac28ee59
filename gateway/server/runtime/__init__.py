"""The live state of one process: rooms, sessions, running jobs."""
