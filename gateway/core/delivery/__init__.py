"""Delivery to sockets: outboxes, shedding for slow readers, fan-out to many. Pure."""
