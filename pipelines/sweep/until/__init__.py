"""Runs that stop as soon as their numbers are exact enough."""
