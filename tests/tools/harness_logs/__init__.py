"""Logs of other harnesses with planted answers, by their own packages: the test data `tests/golden/harness_logs`."""
