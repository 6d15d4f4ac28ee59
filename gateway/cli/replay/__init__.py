"""A timed meeting played into a gateway, what its readers saw of it, and what that is worth."""
