"""Tasks that nobody awaits."""
