"""Outputs in the forms of other tools: Inspect's logs, the harnesses' files, data sets, results and records."""
