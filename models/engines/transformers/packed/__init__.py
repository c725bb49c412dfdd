"""Language models on packed rows: shared prefixes stored once, attention in two parts, states of other layers."""
