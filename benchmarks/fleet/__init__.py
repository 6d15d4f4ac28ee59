"""A meeting in a fleet: HAProxy, gateways and Redis on one machine."""
