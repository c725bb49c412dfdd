"""Pictures of a pun in whatever form the data gives them: embedded, as a file's path, as an address, or as text."""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from models.image_formats import EXTENSIONS, FORMAT_NAMES, detect_format
from pipelines.benchmarks.source import Source
from pipelines.benchmarks.unpie.download import PictureError, fetch
from pipelines.errors import DecodeError, SourceError

MIRROR: Final = "mirror"
"""Folder of the source with pictures that were fetched before: named by the address's sha256, or as in the address."""
_FETCHERS: Final = 16
_LONGEST_PATH: Final = 1000
_SHORTEST_BASE64: Final = 60
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_DATA_URI = re.compile(r"data:(?P<kind>[^,;]*)(?P<more>(?:;[^,;]*)*),", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that can be decoded."""

    content: bytes
    extension: str
    """With its dot, by what the content is."""


class Pictures:
    """Finds pictures for one source."""

    def __init__(self, source: Source, fetcher: Callable[[str], bytes] = fetch) -> None:
        """Look through the mirror folder.

        Args:
            source: the folder of the data.
            fetcher: gets the bytes at an address or raises `PictureError`.
        """
        self._source, self._fetcher = source, fetcher
        self._mirror: dict[str, str] = {}
        for path in sorted(source.glob(f"{MIRROR}/*"), reverse=True):
            name = posixpath.basename(path)
            self._mirror[posixpath.splitext(name)[0]] = path
        self._mirror |= {posixpath.basename(path): path for path in source.glob(f"{MIRROR}/*")}
        self._fetched: dict[str, bytes | PictureError] = {}

    def prefetch(self, values: Iterable[Any]) -> None:
        """Fetch at once whatever of these must come over the network; what was fetched before is forgotten."""
        addresses = dict.fromkeys(value.strip() for value in values if _is_address(value))
        wanted = [address for address in addresses if self._mirrored(address) is None]
        self._fetched = {}
        if wanted:
            with ThreadPoolExecutor(min(_FETCHERS, len(wanted)), thread_name_prefix="unpie-fetch") as pool:
                self._fetched = dict(zip(wanted, pool.map(self._attempt, wanted), strict=True))

    def get(self, value: Any) -> Picture:
        """The picture that a field of the data stands for.

        Args:
            value: bytes; `{"bytes": .., "path": ..}`; or a text: an `http(s)` address, looked for in the mirror before
                it is fetched, a path relative to the source, a `data:` URI, or base64.

        Raises:
            PictureError: it cannot be had or cannot be decoded.
        """
        content = self._bytes(value)
        if not content:
            raise PictureError("no picture is given")
        return Picture(content, self._extension(content))

    def _bytes(self, value: Any) -> bytes:
        if isinstance(value, Mapping):
            return self._bytes(value.get("bytes") or value.get("path"))
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if value is None or value == "":
            return b""
        if not isinstance(value, str):
            raise PictureError(f"a {type(value).__name__} is no picture")
        return self._of_text(value.strip())

    def _of_text(self, text: str) -> bytes:
        if _is_address(text):
            return self._of_address(text)
        if (found := self._of_path(text)) is not None:
            return found
        if uri := _DATA_URI.match(text):
            return _of_data_uri(text[uri.end() :], uri["more"])
        if len(text) >= _SHORTEST_BASE64 and (decoded := _of_base64(text)):
            return decoded
        raise PictureError("no such file in the source")

    def _of_address(self, address: str) -> bytes:
        mirrored = self._mirrored(address)
        if mirrored is not None:
            return self._of_file(mirrored)
        found = self._fetched[address] if address in self._fetched else self._attempt(address)
        if isinstance(found, PictureError):
            raise found
        return found

    def _mirrored(self, address: str) -> str | None:
        digest = hashlib.sha256(address.encode()).hexdigest()
        try:
            name = posixpath.basename(urlsplit(address).path)
        except ValueError:
            name = ""
        found = (self._mirror.get(key) for key in (digest, name, unquote(name)) if key)
        return next((path for path in found if path is not None), None)

    def _of_path(self, text: str) -> bytes | None:
        if len(text) > _LONGEST_PATH or "\n" in text or "\x00" in text:
            return None
        clean = posixpath.normpath(text)
        if clean.startswith(("/", "..")) or clean == ".":
            return None
        try:
            return self._of_file(clean) if self._source.exists(clean) else None
        except (OSError, ValueError):
            return None

    def _of_file(self, path: str) -> bytes:
        try:
            return self._source.read_bytes(path)
        except SourceError as error:
            raise PictureError(str(error)) from error

    def _extension(self, content: bytes) -> str:
        """Have the whole picture decoded, for a broken one must not cost its pun; the end of a name that it would have.

        Raises:
            PictureError: it cannot be decoded.
        """
        form = detect_format(content)
        if not form:
            raise PictureError(f"the file is no picture that can be decoded: it is no {FORMAT_NAMES}")
        try:
            self._source.pixels(content, 1)
        except DecodeError as error:
            if "DecompressionBomb" in str(error):
                raise PictureError("a picture of too many pixels") from error
            raise PictureError("the file is no picture that can be decoded") from error
        return EXTENSIONS[form]

    def _attempt(self, address: str) -> bytes | PictureError:
        try:
            return self._fetcher(address)
        except PictureError as error:
            return error


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and _ADDRESS.match(value.strip()) is not None


def _of_data_uri(payload: str, more: str) -> bytes:
    if not more.lower().endswith(";base64"):
        return unquote_to_bytes(payload)
    content = _of_base64(unquote(payload))
    if not content:
        raise PictureError("a data: URI whose base64 is broken")
    return content


def _of_base64(text: str) -> bytes:
    """Nothing where it is none."""
    packed = "".join(text.split()).translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
