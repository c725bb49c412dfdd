"""`vlmsweep doctor --eyes`: what a model sees of pictures and clips, told by numbers drawn in them."""
