"""Kinds of connections, each with one kind of end."""
