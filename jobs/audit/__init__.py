"""Check published tables against themselves: rules as data, cells with their rounding, and what the rules find."""
