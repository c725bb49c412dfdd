"""The folder of a benchmark as distributed."""

from __future__ import annotations

import fnmatch
import io
import os
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from unicodedata import normalize

from models.guards.regular_files import open_regular
from pipelines.errors import SourceError, TooLargeError
from pipelines.media.decoder import Decoder
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store

if TYPE_CHECKING:
    import numpy as np

MAX_PATH, MAX_NAME = 1000, 255  # characters of a path and bytes of a name that file systems and object stores accept
MAX_FILE_BYTES = 1 << 30  # limit of a video or picture; files are read whole
MAX_BYTES_BY_EXTENSION = {
    **dict.fromkeys((".json", ".csv", ".txt", ".xlsx"), 256 << 20),
    **dict.fromkeys((".jsonl", ".parquet", ".arrow"), 4 << 30),
}  # files that are parsed whole, to some twenty times their size; the largest known have 7 MB and 1 GB


class Folder:
    """A benchmark's source: a read-only folder, local or `s3://`, and a decoder for its pictures."""

    def __init__(self, uri: str, named: str = "") -> None:
        """Open a folder; a file in it that the user `named` may be a link to anywhere."""
        self._store, self._named = Store(uri), named
        self.uri = self._store.uri
        self.decoder = Decoder()
        self._by_form: dict[str, str] | None = None  # paths by their composed Unicode forms, once one is needed
        if not is_remote(self.uri) and not Path(self.uri).is_dir():
            path = Path(self.uri)
            absent = "no such file or folder" if path.suffix else "no such folder"
            raise SourceError(
                f"{self.uri}: {'not a folder; give the folder that it is in' if path.exists() else absent}"
            )
        self._root = os.path.realpath(self.uri)
        # The hub's cache keeps the files of a snapshot beside it; files of a data set there are no links themselves.
        cache, snapshots, _ = self._root.rpartition("/snapshots/")
        self._roots = (self._root.rstrip("/") + "/", *([f"{cache}/blobs/"] if snapshots else []))

    def glob(self, pattern: str) -> list[str]:
        """Return the sorted files that match a pattern relative to the folder; `*` matches within one folder."""
        folder = posixpath.dirname(pattern)
        while any(sign in folder for sign in "*?["):
            folder = posixpath.dirname(folder)
        return [info.path for info in self._store.list(folder) if _matches(info.path, pattern)]

    def exists(self, path: str) -> bool:
        """Return whether there is such a file; invalid paths and paths out of the folder do not exist."""
        return _is_path(path) and self._store.exists(self._spelling(path))

    def _inside(self, path: str) -> str:
        """Return a path in the folder's spelling; SourceError where a link leads out: a data set may bring its own."""
        path = self._spelling(path)
        if is_remote(self.uri) or path == self._named:
            return path
        if not os.path.realpath(f"{self._root}/{path}").startswith(self._roots):
            raise SourceError(
                f"{path}: a link out of {self.uri}; copy the file into the folder, or give its own folder"
            )
        return path

    def _spelling(self, path: str) -> str:
        """Return how the folder spells a path that data may name in another Unicode form."""
        if path.isascii() or self._store.exists(path):
            return path
        if self._by_form is None:
            paths = [info.path for info in self._store.list("")]
            self._by_form = {normalize(form, name): name for form in ("NFKC", "NFC") for name in paths}
        names = (self._by_form.get(normalize(form, path)) for form in ("NFC", "NFKC"))
        return next(filter(None, names), path)

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a file; raise FileNotFoundError, or SourceError if it is too large."""
        if not _is_path(path):
            raise FileNotFoundError(f"{path[:200]!r} is not a valid path of a file in {self.uri}")
        extension = posixpath.splitext(path)[1].lower()
        try:
            return self._store.get(self._inside(path), MAX_BYTES_BY_EXTENSION.get(extension, MAX_FILE_BYTES))
        except TooLargeError as error:
            raise SourceError(f"{self.uri}/{error}; split it, or download the data again") from error

    def open(self, path: str) -> BinaryIO:
        """Open a file to be read from the start, however large; raise FileNotFoundError, or SourceError as above."""
        if is_remote(self.uri):
            return io.BytesIO(self.read_bytes(path))
        if not _is_path(path):
            raise FileNotFoundError(f"{path[:200]!r} is not a valid path of a file in {self.uri}")
        try:
            return open_regular(Path(self.uri) / self._inside(path))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SourceError(f"{self.uri}/{path}: cannot be read: {error.strerror}") from error

    def pixels(self, content: bytes, max_pixels: int | None = None) -> np.ndarray:
        """Decode a picture in the decoding process to uint8 [H, W, 3]; raise DecodeError with the reason."""
        picture: np.ndarray = self.decoder.decode_picture(content, max_pixels).pixels[0]
        return picture


def is_encodable(text: str) -> bool:
    """Return whether UTF-8 can encode a text: JSON may contain half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text)


def _is_path(path: str) -> bool:
    """Return whether a file could have this path; paths come with the data and may be anything."""
    parts = path.split("/")
    if "\x00" in path or not is_encodable(path) or path.startswith("/") or ".." in parts or len(path) > MAX_PATH:
        return False
    return all(len(part.encode()) <= MAX_NAME for part in parts)


def _matches(path: str, pattern: str) -> bool:
    names, patterns = path.split("/"), pattern.split("/")
    return len(names) == len(patterns) and all(map(fnmatch.fnmatchcase, names, patterns))
