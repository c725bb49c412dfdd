"""What both kinds of stores share: file records, and checks of paths and sizes."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from pipelines.errors import TooLargeError

_S3 = "s3://"


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One stored file: path relative to the store's root, and size in bytes."""

    path: str
    size: int


def is_remote(uri: str) -> bool:
    """Return whether a URI names an object store; everything else is a local path."""
    return uri.startswith(_S3)


def resolve(root: str, path: str) -> str:
    """Return `root/path`, refusing a path that leaves the root."""
    return f"{root}/{relative_path(path)}" if path else root


def relative_path(path: str) -> str:
    """Normalize a relative path; refuse one that leaves its folder."""
    normalized = posixpath.normpath(path)
    if normalized.startswith(("/", "..")) or "\x00" in normalized:
        raise ValueError(f"{path!r} leaves its folder")
    return normalized


def check_size(path: str, size: int, max_bytes: int | None) -> None:
    """Raise `TooLargeError` for a file above the reader's limit."""
    if max_bytes is not None and size > max_bytes:
        raise TooLargeError(f"{path}: {size:,} bytes, more than the limit of {max_bytes:,} bytes for such a file")
