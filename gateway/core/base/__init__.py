"""Shared parts of the core: state tables, languages of the model, checks of input. Pure."""
