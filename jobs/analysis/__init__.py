"""`gate` and `power`: what follows from the numbers of an output."""
