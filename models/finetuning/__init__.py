"""Fine-tune local models with low-rank adapters (LoRA)."""
