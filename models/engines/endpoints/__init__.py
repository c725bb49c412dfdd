"""What engines of models behind HTTP endpoints share: retries, limits, budgets, leaders, encoded pictures."""
