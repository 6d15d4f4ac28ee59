"""The soak test: a gateway under load, reconnects and faults, with a check for losses."""
