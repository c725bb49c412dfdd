"""Benchmarks of large sweeps."""
