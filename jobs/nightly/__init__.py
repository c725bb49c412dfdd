"""Nightly runs: repeat what changed, and compare it with the previous night."""
