"""Dry run."""
