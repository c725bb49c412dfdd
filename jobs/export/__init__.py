"""Outputs in the forms of other tools: Inspect's logs, the harnesses' files, a data set for the Hugging Face hub."""
