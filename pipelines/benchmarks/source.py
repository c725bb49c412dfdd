"""The folder that a benchmark is read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np


class Source(Protocol):
    """A read-only folder, local or in an object store; paths are relative with forward slashes."""

    uri: str

    def glob(self, pattern: str) -> list[str]:
        """Return the files that match, sorted."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file at this path."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """Return a whole file; raise FileNotFoundError, or SourceError where it is too large."""
        ...

    def pixels(self, content: bytes, max_pixels: int | None = None) -> np.ndarray:
        """Decode a picture in a process of its own: upright, uint8 [H, W, 3], shrunk to `max_pixels`.

        Raises:
            DecodeError: with the reason.
        """
        ...
