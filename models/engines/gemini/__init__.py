"""Engine for models behind the Gemini API."""
