"""Generate MATE-style data sets."""
