"""Read the header of a safetensors file: names, types and shapes of its tensors, without the weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_tensors(path: Path) -> dict[str, dict[str, Any]]:
    """Return tensor name -> {dtype, shape, data_offsets}, {} for a truncated file; `ValueError` for invalid JSON."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            return {}
        header: dict[str, dict[str, Any]] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return header
