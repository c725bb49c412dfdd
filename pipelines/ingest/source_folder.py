"""TODO doc."""

from __future__ import annotations

import fnmatch
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import SourceError, TooLargeError
from pipelines.media.decoder import Decoder
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store

if TYPE_CHECKING:
    import numpy as np


LONGEST_PATH, LONGEST_NAME = 1000, 255
"""Characters of a path and bytes of a name that file systems and object stores hold."""


LARGEST_FILE = 1 << 30
"""Bytes of a clip or picture of a source; a file is read whole, so a larger one is refused."""


LARGEST_BY_END = {".json": 256 << 20, ".csv": 256 << 20, ".txt": 256 << 20, ".jsonl": 4 << 30, ".parquet": 4 << 30}
"""Bytes of files of other ends. JSON and CSV are parsed whole, to some twenty times their size; of the benchmarks, none
has a text of more than 7 MB or a Parquet file of more than 1 GB."""


class Folder:
    """A benchmark's source: a read-only folder, local or `s3://`, and what decodes the pictures found in it."""

    def __init__(self, uri: str) -> None:
        self._store = Store(uri)
        self.uri = self._store.uri
        self.decoder = Decoder()
        if not is_remote(self.uri) and not Path(self.uri).is_dir():
            raise SourceError(f"{self.uri}: no such folder")

    def glob(self, pattern: str) -> list[str]:
        """Files that match a pattern relative to the folder, sorted."""
        folder = posixpath.dirname(pattern)
        while any(sign in folder for sign in "*?["):
            folder = posixpath.dirname(folder)
        return [info.path for info in self._store.list(folder) if _matches(info.path, pattern)]

    def exists(self, path: str) -> bool:
        """Whether there is a file; no path out of the folder, and none that no file can have, leads to one."""
        return _is_path(path) and self._store.exists(path)

    def read_bytes(self, path: str) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: there is none.
            SourceError: it is larger than `LARGEST_FILE` or `LARGEST_BY_END` allow.
        """
        if not _is_path(path):
            raise FileNotFoundError(f"{path[:200]!r} is no path of a file in {self.uri}")
        try:
            return self._store.get(path, LARGEST_BY_END.get(posixpath.splitext(path)[1].lower(), LARGEST_FILE))
        except TooLargeError as error:
            raise SourceError(f"{self.uri}/{error}; split it, or fetch the data again") from error

    def pixels(self, content: bytes, max_pixels: int | None = None) -> np.ndarray:
        """A picture's pixels, uint8 [H, W, 3], decoded in a process of its own.

        Raises:
            DecodeError: with the reason.
        """
        picture: np.ndarray = self.decoder.decode_picture(content, max_pixels).pixels[0]
        return picture


def _is_path(path: str) -> bool:
    """Whether a file could lie here: paths come with the data, and may be anything."""
    parts = path.split("/")
    if "\x00" in path or not _is_text(path) or path.startswith("/") or ".." in parts or len(path) > LONGEST_PATH:
        return False
    return all(len(part.encode()) <= LONGEST_NAME for part in parts)


def _matches(path: str, pattern: str) -> bool:
    """As a shell matches: `*` stays within one folder."""
    names, wanted = path.split("/"), pattern.split("/")
    return len(names) == len(wanted) and all(map(fnmatch.fnmatchcase, names, wanted))


def _is_text(text: str) -> bool:
    """Whether UTF-8 can hold it: JSON may carry half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text)
