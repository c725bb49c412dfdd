"""What engines of models behind HTTP endpoints share: retries, limits, budgets, first requests, encoded pictures."""
