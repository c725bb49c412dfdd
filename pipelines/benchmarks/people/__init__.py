"""What benchmarks share about people: comparisons with models, and annotation forms."""
