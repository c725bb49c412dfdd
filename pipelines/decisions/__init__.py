"""What follows from a report's numbers: whether a model may be released, and how much data a difference needs."""
