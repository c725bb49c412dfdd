"""Common code of both kinds of stores: file records, and checks of paths and sizes."""

import hashlib
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from pipelines.errors import TooLargeError

_S3 = "s3://"
_RESERVED: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|data)(\.|$)", re.IGNORECASE)
_LONGEST_NAME: Final = 120


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One stored file: path relative to the store's root, and size in bytes."""

    path: str
    size: int
    version: str = ""  # changes with the content; '' on a disk

    def is_known_to_be(self, content: bytes) -> bool:
        """Return whether the version shows that the file has this content: most stores give the MD5 of small files."""
        return self.version.strip('"') == hashlib.md5(content, usedforsecurity=False).hexdigest()


def is_remote(uri: str) -> bool:
    """Return whether a URI names an object store; everything else is a local path."""
    return uri.startswith(_S3)


def location_problem(uri: str) -> str:
    """Return why a URI names neither a folder on a disk nor one in an object store, '' if it does."""
    if not is_remote(uri):
        is_mistyped = re.match(r"(?:s3|gs|https?):", uri, re.IGNORECASE) is not None  # such as s3:/bucket
        return "only local paths and s3:// are supported" if "://" in uri or is_mistyped else ""
    if "?" in uri:
        return "an address with a query names a version of one object; give s3://bucket/folder"
    bucket, *parts = uri.removeprefix(_S3).rstrip("/").split("/")
    if "@" in bucket:
        return (
            "it holds a user or password; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and give s3://bucket/folder"
        )
    if not bucket.strip():
        return "it names no bucket; give s3://bucket/folder"
    has_all_names = {"", ".", ".."}.isdisjoint(parts)  # stores differ in what they make of these
    return "" if has_all_names else "a part of it is empty, . or ..; give s3://bucket/folder"


def short_labels(uris: Sequence[str]) -> list[str]:
    """Return the shortest distinct ends of addresses: `results`, or `monday/results` and `friday/results`."""
    parts = [[part for part in uri.rstrip("/").split("/") if part and part != "s3:"] or [uri] for uri in uris]
    for length in range(1, max(map(len, parts), default=0) + 1):
        labels = ["/".join(part[-length:]) for part in parts]
        if len({*labels}) == len(labels):
            return labels
    return [f"{number}:{uri}" for number, uri in enumerate(uris, 1)]


def portable_name(text: str) -> str:
    """Return a text as the name of a file or folder that every system takes."""
    parts = re.sub(r"[^A-Za-z0-9_.+%-]", lambda sign: "_" if sign[0].isascii() else quote(sign[0]), text)
    if len(parts) > _LONGEST_NAME:  # texts that begin alike stay apart
        parts = f"{parts[: _LONGEST_NAME - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    name = parts.strip(".") or "_"
    return f"_{name}" if _RESERVED.match(name) else name


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
