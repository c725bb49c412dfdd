"""Distributions on `sys.path` that register entry points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def plant(folder: Path, name: str, entries: Mapping[str, Mapping[str, str]], module: str = "") -> None:
    """Write an installed distribution: its entry points by group, and the text of its module `NAME`, if any."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = (
        "\n".join((f"[{group}]", *(f"{key} = {value}" for key, value in of.items()))) for group, of in entries.items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    if module:
        (folder / f"{name}.py").write_text(module)
