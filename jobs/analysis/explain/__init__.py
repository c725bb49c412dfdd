"""Why two numbers differ: the difference is split by substitution over the rows, stage by stage."""
