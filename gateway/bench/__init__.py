"""Proof of speed: load on a gateway, and the architectures that it is compared with."""
