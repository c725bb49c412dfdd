"""Guards between foreign files and texts and the rest of the product."""
