"""Readers of answers that several benchmarks share: the letter of an option, and short answers."""
