"""`vlmsweep doctor --eyes`: what a model sees of pictures and clips, detected from numbers drawn in them."""
