"""The gateway as a plugin inside `vllm serve`."""
