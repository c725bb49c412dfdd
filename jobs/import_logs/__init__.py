"""Readers of the logs of other harnesses; nothing of theirs is run."""
