"""The room: rights, settings, snapshots for late readers, restoring from a log. Pure."""
