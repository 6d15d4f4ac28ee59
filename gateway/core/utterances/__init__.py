"""Texts of speakers: utterances, their parts, and the captions made of them. Pure."""
