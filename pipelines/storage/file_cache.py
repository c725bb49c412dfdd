"""Contents of files that a process has read or written, so that it need not read the same version again."""

import threading
from collections import OrderedDict
from typing import Final

MAX_BYTES: Final = 64 << 20  # of the contents that one store holds; those used last stay
NAMED: Final = "named"  # the version of a file whose name is a hash of its content: it has no other


class FileCache:
    """Contents by path and version, up to a number of bytes; several threads may use it."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._contents: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, path: str, version: str) -> bytes | None:
        """Return the content of a file if it is cached in this version."""
        with self._lock:
            cached = self._contents.get(path)
            if cached is None or cached[0] != version:
                return None
            self._contents.move_to_end(path)
            return cached[1]

    def add(self, path: str, version: str, content: bytes) -> None:
        """Hold a content in place of the file's other versions, and drop those that were not used for longest."""
        with self._lock:
            self._drop(path)
            self._contents[path] = version, content
            self._bytes += len(content)
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._contents)))

    def drop(self, path: str) -> None:
        """Hold a file no longer."""
        with self._lock:
            self._drop(path)

    def _drop(self, path: str) -> None:
        if path in self._contents:
            self._bytes -= len(self._contents.pop(path)[1])
