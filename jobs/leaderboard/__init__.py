"""One table over several outputs and the published rows, as page and CSV."""
