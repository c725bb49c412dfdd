"""What a stress test asks once more, and under which conditions."""
