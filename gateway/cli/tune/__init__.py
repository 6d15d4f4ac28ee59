"""Which settings fit the load that a gateway really has."""
