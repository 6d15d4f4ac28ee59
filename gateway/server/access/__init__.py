"""Authentication of requests and sockets."""
