"""Read the header of a safetensors file: names, types and shapes of its tensors, without the weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_MAX_HEADER = 16 << 20  # bytes; those of the largest models have two million


def read_tensors(path: Path) -> dict[str, dict[str, Any]]:
    """Return tensor name -> {dtype, shape, data_offsets}, {} for a truncated file; `ValueError` for a damaged one."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            return {}
        if length > _MAX_HEADER:
            raise ValueError(f"{path}: its header has {length:,} bytes, so it is damaged; fetch the file again")
        content = file.read(length)
    try:
        header: dict[str, dict[str, Any]] = json.loads(content)
        header.pop("__metadata__", None)
        is_valid = all(map(_is_tensor, header.values()))
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: its header is damaged ({error}); fetch the file again") from error
    if not is_valid:
        raise ValueError(f"{path}: its header is damaged (a tensor without type, shape or place); fetch the file again")
    return header


def _is_tensor(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        return False
    shape, place = entry.get("shape"), entry.get("data_offsets")
    if not isinstance(shape, list) or not isinstance(place, list) or len(place) != 2:
        return False
    return all(type(number) is int and 0 <= number < 1 << 63 for number in (*shape, *place)) and place[0] <= place[1]
