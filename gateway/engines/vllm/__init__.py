"""The vLLM engine: models on a GPU, in this process."""
