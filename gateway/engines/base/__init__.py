"""The engine contract, and the common parts of engines that run a model themselves."""
