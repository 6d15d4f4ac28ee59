"""Tests of `gateway.io`."""
