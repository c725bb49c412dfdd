"""The command line: one file a command."""

try:
    from jobs.cli.main import main
except KeyboardInterrupt:  # Ctrl-C while modules are loaded, a second in which nothing has begun
    raise SystemExit(130) from None

__all__ = ["main"]
