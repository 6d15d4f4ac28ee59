"""Settings: their catalogue, their sources, and listings of them."""
