"""Fuzz targets: inputs that a coverage-guided fuzzer makes, and promises that must hold.

Each target is a module with `one`, which plays one input and raises if a promise is broken. It
needs no fuzzer: `tests/fuzz/test_found.py` plays the inputs that were found. `python -m fuzz`
searches.
"""
