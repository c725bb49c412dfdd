"""What commands share: flags, options, output, progress and exit codes."""
