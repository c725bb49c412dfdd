"""Unpie."""
