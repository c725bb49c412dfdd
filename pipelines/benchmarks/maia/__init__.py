"""Maia."""
