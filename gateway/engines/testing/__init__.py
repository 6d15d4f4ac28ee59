"""Tests that every engine has to pass."""
