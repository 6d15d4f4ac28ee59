"""Benchmarks of the gateway: ratios measured within one run. None of them fails a build."""
