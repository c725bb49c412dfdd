"""Engine for models behind an OpenAI-compatible endpoint."""
