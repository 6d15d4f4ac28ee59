"""Order of jobs, overload, coalescing under load, and timers of a room. Pure."""
