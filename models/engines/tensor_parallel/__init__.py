"""Engine that shards one replica over several processes."""
