"""What a stress test says: which answers, scores and conclusions change under which condition."""
