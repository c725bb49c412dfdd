"""A folder that one run writes: it is listed once, and a file is written only where its content is not stored yet."""

from __future__ import annotations

from functools import cached_property

from pipelines.storage.backend import FileInfo
from pipelines.storage.held_files import NAMED
from pipelines.storage.store import Store


class ListedFolder:
    """The files of a folder, by their paths in the store; nothing else may write them."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self._folder = store, folder

    @cached_property
    def by_path(self) -> dict[str, FileInfo]:
        """The files, as they were listed or written since."""
        return {info.path: info for info in self.store.list(self._folder)}

    def put_named(self, path: str, content: bytes) -> None:
        """Write a file whose name is a hash of its content, as `put`; the store may hold it for its readers."""
        self.put(path, content)
        self.store.hold(path, NAMED, content)

    def put(self, path: str, content: bytes) -> None:
        """Write a file unless it is stored unchanged: a damaged one is replaced, an intact one keeps its date."""
        if not self._is_stored(path, content):
            self.replace(path, content)

    def replace(self, path: str, content: bytes) -> None:
        """Write a file in any case."""
        self.store.put(path, content)
        self.by_path[path] = FileInfo(path, len(content))

    def delete(self, path: str) -> None:
        """Delete a file."""
        self.store.delete(path)
        self.by_path.pop(path, None)

    def _is_stored(self, path: str, content: bytes) -> bool:
        info = self.by_path.get(path)
        if info is None or info.is_known_to_be(content):
            return info is not None
        try:
            return self.store.get(path) == content
        except FileNotFoundError:
            return False
