"""Captions as a reader saw them, and the figures and pictures made of them."""
