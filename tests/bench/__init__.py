"""Measurements; not part of the tests."""
