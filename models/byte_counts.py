"""Numbers of bytes for people."""

from __future__ import annotations


def format_bytes(count: float) -> str:
    """Return bytes in the largest of GB, MB and kB of which there is at least one: small files have no 0.0 GB."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    unit, size = ("MB", 1e6) if count >= 1e6 else ("kB", 1e3) if count >= 1e3 else ("bytes", 1)
    return f"{count / size:.0f} {unit}"
