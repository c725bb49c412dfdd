"""Engine that runs checkpoints with transformers."""
