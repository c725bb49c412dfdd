"""A model behind an OpenAI-compatible endpoint: what is read, what is written back, who may ask."""
