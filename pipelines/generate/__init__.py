"""Generated data: benchmarks of our own, in the form in which the published ones are distributed."""
