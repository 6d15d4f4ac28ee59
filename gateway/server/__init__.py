"""The rim towards clients: sockets and HTTP in, sessions and rooms behind."""
