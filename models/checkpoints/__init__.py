"""Checkpoints in folders: whether the installed packages can load them."""
