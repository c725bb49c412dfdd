"""Answers that other harnesses logged: read without running anything of theirs, matched, and compared by verdict."""
