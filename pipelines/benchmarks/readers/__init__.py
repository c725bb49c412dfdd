"""Readers of answers that benchmarks share: the letter of an option, and short answers."""
