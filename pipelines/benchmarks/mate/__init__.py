"""Mate."""
