"""Media: fetching, and decoding in a process that may die."""
