"""Engine for models behind the Anthropic Messages API."""
