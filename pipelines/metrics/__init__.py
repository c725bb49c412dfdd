"""Text metrics, agreement and statistics, independent of benchmarks and Ray; torch is imported on first use."""
