"""Output guards: rules that tell a translation from other model output. Pure."""
