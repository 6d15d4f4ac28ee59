"""Storage of rooms beyond a process: the interface, and the events still to be written. Pure."""
