"""One preprocessing for all ranks of a group: rank 0 runs the processor, the others get its tensors."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed

from models.engines.transformers.row_errors import ROW_ERRORS
from models.errors import BUGS, EngineDiedError

_TIMEOUT = timedelta(hours=2)  # the parent enforces the model's own


class PixelGroup:
    """Ranks that share the outputs of one processor, over the CPU: pixels wait there until the model takes them."""

    def __init__(self) -> None:
        """Join the group; every rank must."""
        self._group: Any = distributed.new_group(backend="gloo", timeout=_TIMEOUT)
        self.has_pixels = distributed.get_rank() == 0

    def share(self, process: Callable[[], Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Return in every rank what `process` returns in rank 0, the only one that calls it.

        Raises:
            ValueError: in the other ranks, where `process` raised one of `ROW_ERRORS`.
            EngineDiedError: in the other ranks, where it raised something else that is no bug.
        """
        if not self.has_pixels:
            return self._receive()
        try:
            tensors = {name: tensor.contiguous() for name, tensor in process().items()}
        except BUGS:  # the parent ends the group, whose other ranks wait
            raise
        except Exception as error:
            self._send_header({"error": f"{type(error).__name__}: {error}", "row_error": isinstance(error, ROW_ERRORS)})
            raise
        self._send_header([[name, str(t.dtype).removeprefix("torch."), list(t.shape)] for name, t in tensors.items()])
        for tensor in tensors.values():
            self._broadcast(tensor)
        return tensors

    def _receive(self) -> dict[str, Tensor]:
        size = torch.zeros(1, dtype=torch.int64)
        self._broadcast(size)
        raw = torch.empty(int(size), dtype=torch.uint8)
        self._broadcast(raw)
        header = json.loads(raw.numpy().tobytes())
        if isinstance(header, dict):
            raise (ValueError if header["row_error"] else EngineDiedError)(f"rank 0: {header['error']}")
        tensors = {name: torch.empty(shape, dtype=getattr(torch, dtype)) for name, dtype, shape in header}
        for tensor in tensors.values():
            self._broadcast(tensor)
        return tensors

    def _send_header(self, header: object) -> None:
        raw = torch.frombuffer(bytearray(json.dumps(header).encode()), dtype=torch.uint8)
        self._broadcast(torch.tensor([len(raw)]))
        self._broadcast(raw)

    def _broadcast(self, tensor: Tensor) -> None:
        """Send or receive the memory of a contiguous tensor, as bytes, since gloo does not send every type."""
        if tensor.numel():
            distributed.broadcast(tensor.view(-1).view(torch.uint8), 0, group=self._group)


def join_pixels() -> PixelGroup | None:
    """Return the group of ranks that share a processor's outputs; None in a process of its own."""
    return PixelGroup() if distributed.is_initialized() and distributed.get_world_size() > 1 else None
