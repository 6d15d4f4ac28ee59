"""Servers with OpenAI's API of transcriptions."""
