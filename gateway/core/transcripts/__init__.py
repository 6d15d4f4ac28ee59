"""Transcripts of a room, as WebVTT, SubRip, plain text and JSON. Pure."""
