"""Generator."""
