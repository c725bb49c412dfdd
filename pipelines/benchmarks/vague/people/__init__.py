"""People's work on this benchmark: baselines, files, forms."""
