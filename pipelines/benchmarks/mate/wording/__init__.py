"""The wording of prompts that are built here: ours, and the paper's."""
