"""Figures of speech recognition: errors, delay and CPU. ``python -m benchmarks.speech``."""
