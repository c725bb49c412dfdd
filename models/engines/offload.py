"""A model that does not fit: accelerate keeps layers in CPU memory or on disk and brings each in for its turn.

The plan says where weights would be kept and how slow that is; it loads no torch.
"""

import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.engines.weight_store import weights_folder
from models.gpu_memory import MAX_ROWS, BatchShape, MemoryNeed, format_bytes
from models.scratch import make_scratch, remove_abandoned, remove_scratch

if TYPE_CHECKING:
    import torch

WEIGHTS_SHARE = 0.7  # of the free memory of a GPU or machine; the rest is for activations, keys and values
HOST_BYTES_PER_S = 10e9  # from pageable CPU memory to a GPU over PCIe 4.0
DISK_BYTES_PER_S = 1.5e9  # from an NVMe disk, files that the page cache does not hold


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadPlan:
    """Bytes of weights by the device that holds them."""

    host: int  # in CPU memory, brought to the GPU in each forward pass; 0 without a GPU
    disk: int  # read in each forward pass

    @property
    def seconds_per_pass(self) -> float:
        """Return the seconds that one forward pass, a prefill or one token of a whole batch, moves weights for."""
        return self.host / HOST_BYTES_PER_S + self.disk / DISK_BYTES_PER_S

    @property
    def summary(self) -> str:
        """Describe the devices and the time."""
        return (
            f"offload brings {format_bytes(self.host)} of weights from CPU memory and {format_bytes(self.disk)} from "
            f"disk for each prefill and each token of a batch, which takes {self.seconds_per_pass:.3g} s at "
            f"{HOST_BYTES_PER_S / 1e9:g} GB/s from memory and {DISK_BYTES_PER_S / 1e9:g} GB/s from disk"
        )


def plan_offload(weights: int, *, gpu_bytes: int, host_bytes: int) -> OffloadPlan:
    """Return where `weights` bytes are kept, as `offload_arguments` places them; `gpu_bytes` is 0 for a CPU."""
    on_gpu = min(weights, int(gpu_bytes * WEIGHTS_SHARE))
    in_memory = min(weights - on_gpu, int(host_bytes * WEIGHTS_SHARE))
    return OffloadPlan(host=in_memory if gpu_bytes else 0, disk=weights - on_gpu - in_memory)


def offload_rows(need: MemoryNeed, batch: BatchShape, memory: int) -> int:
    """Return the rows of a batch that fit into the computing device's memory, in bytes, in addition to the weights."""
    available = round(memory * (1 - WEIGHTS_SHARE)) - need.activations - need.fixed
    # Every row holds the whole prefix: an offloaded model shares none. Growing a cache holds the old and the new.
    tokens = 2 * (batch.prefix_tokens + batch.own_tokens)
    return max(1, min(MAX_ROWS, available // 2 // (tokens * need.cache_per_token)))


def offload_arguments(device: "torch.device", free: int, free_host: int) -> dict[str, Any]:
    """Return the arguments of `from_pretrained` that fill `device`, then CPU memory, then the disk.

    `free` and `free_host` are bytes. Layers on disk are read from the checkpoint's own files; the folder made here
    receives those that transformers converts while it loads them, and `remove_with` deletes it.
    """
    remove_abandoned(str(weights_folder()))
    max_memory: dict[int | str, int] = {"cpu": int(free_host * WEIGHTS_SHARE)}
    if device.type == "cuda":
        max_memory = {device.index or 0: int(free * WEIGHTS_SHARE), **max_memory}
    return {
        "device_map": "sequential",
        "max_memory": max_memory,
        "offload_folder": str(make_scratch(str(weights_folder()))),
    }


def remove_with(model: object, folder: str) -> None:
    """Delete a folder when the model is released or the process ends."""
    weakref.finalize(model, remove_scratch, Path(folder))


def is_spread(model: Any) -> bool:
    """Return whether a loaded model's layers are on several devices or on disk."""
    devices = set(getattr(model, "hf_device_map", {}).values())
    return len(devices) > 1 or "disk" in devices
