"""Settings: the catalogue, and how files, variables and flags are read."""
