"""Translation between OpenAI's realtime events and the messages of this gateway."""
