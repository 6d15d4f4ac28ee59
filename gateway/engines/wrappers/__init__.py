"""Engines around engines: guards, long texts, supervision, fallback."""
