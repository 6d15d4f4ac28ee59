"""Translation engines: the contract, its implementations, and what wraps them."""
