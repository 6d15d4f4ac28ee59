"""Members of a room: who is present or away, and who reads which language. Pure."""
