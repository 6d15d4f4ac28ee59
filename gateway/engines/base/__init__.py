"""The engine contract, and what engines that run a model themselves share."""
