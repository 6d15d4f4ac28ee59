"""The CTranslate2 engine: models on the CPU, in this process."""
