"""Where the weights of a model that does not fit would be kept with `offload: true`, and how slow that is."""

from __future__ import annotations

from dataclasses import dataclass

from models.gpu_memory import MAX_ROWS, BatchShape, MemoryNeed

WEIGHTS_SHARE = 0.7  # of the free memory of a GPU or machine; the rest is for activations, keys and values
HOST_BYTES_PER_S = 10e9  # from pageable CPU memory to a GPU over PCIe 4.0
DISK_BYTES_PER_S = 1.5e9  # from an NVMe disk, files that the page cache does not hold


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadPlan:
    """Bytes of weights by the place that keeps them."""

    host: int  # in CPU memory, brought to the GPU in each forward pass; 0 without a GPU
    disk: int  # read in each forward pass

    @property
    def seconds_per_pass(self) -> float:
        """Return the seconds that one forward pass, a prefill or one token of a whole batch, moves weights for."""
        return self.host / HOST_BYTES_PER_S + self.disk / DISK_BYTES_PER_S

    @property
    def words(self) -> str:
        """Describe the places and the time."""
        return (
            f"offload brings {self.host / 1e9:.1f} GB of weights from CPU memory and {self.disk / 1e9:.1f} GB from "
            f"disk for each prefill and each token of a batch, which takes {self.seconds_per_pass:.3g} s at "
            f"{HOST_BYTES_PER_S / 1e9:g} GB/s from memory and {DISK_BYTES_PER_S / 1e9:g} GB/s from disk"
        )


def plan_offload(weights: int, *, gpu_bytes: int, host_bytes: int) -> OffloadPlan:
    """Return where `weights` bytes are kept, by the rule of `models.engines.offload`; `gpu_bytes` is 0 for a CPU."""
    on_gpu = min(weights, int(gpu_bytes * WEIGHTS_SHARE))
    in_memory = min(weights - on_gpu, int(host_bytes * WEIGHTS_SHARE))
    return OffloadPlan(host=in_memory if gpu_bytes else 0, disk=weights - on_gpu - in_memory)


def offload_rows(need: MemoryNeed, batch: BatchShape, memory: int) -> int:
    """Return the rows of a batch that the memory of the computing device, in bytes, leaves room for beside weights."""
    room = round(memory * (1 - WEIGHTS_SHARE)) - need.activations - need.fixed
    # Every row holds the whole prefix: an offloaded model shares none. Growing a cache holds the old and the new.
    tokens = 2 * (batch.prefix_tokens + batch.own_tokens)
    return max(1, min(MAX_ROWS, room // 2 // (tokens * need.cache_per_token)))
