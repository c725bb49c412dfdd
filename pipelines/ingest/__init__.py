"""Convert benchmarks as distributed, and files of human annotations, to canonical data."""
