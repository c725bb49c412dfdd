"""Load a model that does not fit: accelerate keeps layers in CPU memory or on disk and brings each in for its turn."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import Any

import torch

from models.offload_plan import WEIGHTS_SHARE


def offload_arguments(device: torch.device, free: int, free_host: int) -> dict[str, Any]:
    """Return the arguments of `from_pretrained` that fill `device`, then CPU memory, then the disk.

    `free` and `free_host` are bytes. Layers on disk are read from the checkpoint's own files; the folder made here
    receives those that transformers converts while it loads them, and `remove_with` deletes it.
    """
    max_memory: dict[int | str, int] = {"cpu": int(free_host * WEIGHTS_SHARE)}
    if device.type == "cuda":
        max_memory = {device.index or 0: int(free * WEIGHTS_SHARE), **max_memory}
    folder = tempfile.mkdtemp(prefix=f"vlmsweep-{os.getpid()}-offload-")
    return {"device_map": "sequential", "max_memory": max_memory, "offload_folder": folder}


def remove_with(model: object, folder: str) -> None:
    """Delete a folder when the model is released or the process ends."""
    weakref.finalize(model, shutil.rmtree, folder, ignore_errors=True)


def is_spread(model: Any) -> bool:
    """Return whether a loaded model's layers are on several devices or on disk."""
    places = set(getattr(model, "hf_device_map", {}).values())
    return len(places) > 1 or "disk" in places
