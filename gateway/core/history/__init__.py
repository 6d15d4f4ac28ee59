"""The durable history of a room: the numbered log, and what is published into it. Pure."""
