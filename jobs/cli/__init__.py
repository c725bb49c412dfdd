"""The command line: one file a command."""

from jobs.cli.main import main

__all__ = ["main"]
