"""Check published tables against themselves: rules as data, numbers with their rounding, and what the rules find."""
