"""Answers that another harness logged: recognised and read by registered readers, matched, compared by verdict."""
