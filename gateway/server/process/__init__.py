"""One gateway process: its listener, signals, start and end."""
