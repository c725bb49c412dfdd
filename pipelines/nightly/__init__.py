"""Nightly."""
