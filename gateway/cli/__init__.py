"""The command line: `gateway serve`, a client in the terminal, and tools for operators."""
