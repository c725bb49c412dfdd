"""A static site of an output: its report, and every sample with all answers; it opens from `file://`."""
