"""Sizes of batches, from free memory; smaller after every out-of-memory failure."""

import logging
from collections.abc import Iterator, Sequence

import torch

from models.engines.transformers.checkpoint import Checkpoint, free_gpu_bytes
from models.engines.transformers.model_config import STATE_LAYERS, heads_of, key_sources, layer_configs, layer_kinds
from models.engines.weights import free_host_bytes
from models.spec import ModelSpec

_log = logging.getLogger(__name__)
_MAX_ROWS = {"cuda": 256, "cpu": 256}  # rows beyond which a batch gains nothing
_MAX_PADDED_ROWS = {"cpu": 64}  # the same where each row is a whole prompt, whose activations count too
_CHUNK = {"cuda": 16_384, "cpu": 4_096}  # tokens prefilled in one pass


class Memory:
    """Sizes of batches on one device."""

    def __init__(self, checkpoint: Checkpoint, spec: ModelSpec) -> None:
        """Measure free memory once, with the weights loaded: batches must not depend on the moment."""
        self._device = checkpoint.device
        self._rows = spec.batch_size or _MAX_ROWS.get(self._device.type, 32)
        self._is_fixed = spec.batch_size is not None
        self.learnt_rows: int | None = None  # the most that may fit, where a batch did not
        self._token_bytes = _bytes_per_token(checkpoint)
        self._said_states = False
        free = _free_bytes(self._device)
        self._budget = free // 2
        self.chunk = _CHUNK.get(self._device.type, 4_096)  # tokens prefilled in one pass
        self.prefix_cache_bytes = free // 8  # for prefixes that later calls may share

    def rows(self, tokens: int, state_bytes: int = 0, *, is_padded: bool = False) -> int:
        """Return the rows of a batch whose longest row has this many own tokens, its answer included.

        Each row also holds `state_bytes`, whatever its length.
        """
        if self._is_fixed:
            return self._rows
        # Growing a row's cache holds old and new at once, as does a step of a state: twice the bytes.
        fitting = self._budget // (2 * (tokens * self._token_bytes + state_bytes))
        if fitting < self._rows and state_bytes and not self._said_states:
            self._said_states = True
            _log.warning(
                "batches have %d questions, not %d: the state of each takes %.0f MiB besides keys and values",
                max(1, fitting), self._rows, state_bytes / 2**20,
            )  # fmt: skip
        most = _MAX_PADDED_ROWS.get(self._device.type, self._rows) if is_padded else self._rows
        return max(1, min(self._rows, most, fitting))

    def shrink(self, failed: int) -> None:
        """Lower the limit after a batch of this many rows did not fit."""
        self._rows = self.learnt_rows = max(1, min(self._rows, failed // 2))
        self.release()

    def release(self) -> None:
        """Return the memory that torch caches to the device."""
        if self._device.type == "cuda":
            torch.cuda.empty_cache()


def chunk_ranges(lengths: Sequence[int], max_tokens: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of consecutive rows that take at most this many tokens when padded; each has at least one row."""
    first, longest = 0, 0
    for index, length in enumerate(lengths):
        if index > first and (index + 1 - first) * max(longest, length) > max_tokens:
            yield first, index
            first, longest = index, 0
        longest = max(longest, length)
    yield first, len(lengths)


def _free_bytes(device: torch.device) -> int:
    """Return the available bytes, the minimum over ranks: all ranks must form the same batches."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        free = free_gpu_bytes(device) + int(unused)
    else:
        free = free_host_bytes()
    if torch.distributed.is_initialized():
        minimum = torch.tensor(free, device=device)
        torch.distributed.all_reduce(minimum, op=torch.distributed.ReduceOp.MIN)
        free = int(minimum)
    return free


def _bytes_per_token(checkpoint: Checkpoint) -> int:
    """Return the bytes of one token's keys and values in all layers that store them; a guess where none is named."""
    ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    text = checkpoint.text_config
    without = {n for n, kind in enumerate(layer_kinds(text)) if kind in STATE_LAYERS} | {*key_sources(text)}
    layers = [heads_of(layer) for n, layer in enumerate(layer_configs(text)) if n not in without]
    values = sum(max(1, keys // ranks) * width for _, keys, width in layers)
    return max(1, 2 * values * int(checkpoint.model.dtype.itemsize))
