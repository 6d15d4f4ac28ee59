"""A room of several gateways: its authority in one of them, a replica in each. Pure."""
