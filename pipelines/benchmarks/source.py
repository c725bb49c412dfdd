"""The folder that a benchmark is read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np


class Source(Protocol):
    """A read-only folder, local or in an object store; paths are relative with forward slashes."""

    uri: str

    def glob(self, pattern: str) -> list[str]:
        """Files that match, sorted."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file at this path."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: there is none.
            SourceError: it is larger than any such file is.
        """
        ...

    def pixels(self, content: bytes, max_pixels: int | None = None) -> np.ndarray:
        """A picture upright and in eight bits, uint8 [H, W, 3], decoded in a process of its own.

        Args:
            content: the picture's file.
            max_pixels: it is shrunk to so many; 1 where it matters only whether it can be decoded.

        Raises:
            DecodeError: With the reason.
        """
        ...
