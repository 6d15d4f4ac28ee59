"""Storage of rooms beyond a process: the interface, and what is still to be written. Pure."""
