"""Models that are known by name: their addresses, fetching and converting them."""
