"""State of a client, as a reducer of the events it receives. Pure."""
