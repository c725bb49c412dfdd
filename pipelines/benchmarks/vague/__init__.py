"""Vague."""
