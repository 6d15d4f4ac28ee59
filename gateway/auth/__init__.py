"""Rules of access: what API keys, tokens, tickets, origins and addresses allow. Pure."""
