"""Engine for models on vLLM."""
