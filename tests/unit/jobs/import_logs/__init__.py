"""Logs of other harnesses."""
