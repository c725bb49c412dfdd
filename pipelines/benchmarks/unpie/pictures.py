"""Load the pictures of a pun in any form of the data: embedded bytes, a path, an address, a data URI or base64."""

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
from pipelines.benchmarks.records import Source
from pipelines.benchmarks.unpie.download import PictureError, fetch
from pipelines.errors import DecodeError, SourceError

MIRROR: Final = "mirror"  # folder of pictures, named by file name or sha256 of their address
_MAX_DOWNLOADS: Final = 16
_MAX_PATH_CHARS: Final = 1000
_MIN_BASE64_CHARS: Final = 60
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_DATA_URI = re.compile(r"data:(?P<kind>[^,;]*)(?P<more>(?:;[^,;]*)*),", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that can be decoded."""

    content: bytes
    extension: str  # with its dot; detected from the content


class PictureLoader:
    """Loads the pictures of one source."""

    def __init__(self, source: Source, fetcher: Callable[[str], bytes] = fetch) -> None:
        """List the mirror folder; `fetcher` returns the bytes at an address or raises `PictureError`."""
        self._source, self._fetcher = source, fetcher
        self._mirror: dict[str, str] = {}
        for path in sorted(source.glob(f"{MIRROR}/*"), reverse=True):
            name = posixpath.basename(path)
            self._mirror[posixpath.splitext(name)[0]] = path
        self._mirror |= {posixpath.basename(path): path for path in source.glob(f"{MIRROR}/*")}
        self._downloads: dict[str, bytes | PictureError] = {}

    def prefetch(self, values: Iterable[Any]) -> None:
        """Download concurrently those of these pictures that are not local, and drop earlier downloads."""
        addresses = dict.fromkeys(value.strip() for value in values if _is_address(value))
        remote = [address for address in addresses if self._mirrored_path(address) is None]
        self._downloads = {}
        if remote:
            with ThreadPoolExecutor(min(_MAX_DOWNLOADS, len(remote)), thread_name_prefix="unpie-fetch") as pool:
                self._downloads = dict(zip(remote, pool.map(self._attempt, remote), strict=True))

    def get(self, value: Any) -> Picture:
        """Return the picture of a field: bytes, `{"bytes": .., "path": ..}`, or text.

        Text is an `http(s)` address, downloaded unless the mirror has it, a path relative to the source, a `data:` URI,
        or base64. Raises PictureError where the picture is unavailable or cannot be decoded.
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
        return self._read_text(value.strip())

    def _read_text(self, text: str) -> bytes:
        if _is_address(text):
            return self._read_address(text)
        if (content := self._read_path(text)) is not None:
            return content
        if uri := _DATA_URI.match(text):
            return _decode_data_uri(text[uri.end() :], uri["more"])
        if len(text) >= _MIN_BASE64_CHARS and (decoded := _decode_base64(text)):
            return decoded
        raise PictureError("no such file in the source")

    def _read_address(self, address: str) -> bytes:
        path = self._mirrored_path(address)
        if path is not None:
            return self._read_file(path)
        content = self._downloads[address] if address in self._downloads else self._attempt(address)
        if isinstance(content, PictureError):
            raise content
        return content

    def _mirrored_path(self, address: str) -> str | None:
        digest = hashlib.sha256(address.encode()).hexdigest()
        try:
            name = posixpath.basename(urlsplit(address).path)
        except ValueError:
            name = ""
        paths = (self._mirror.get(key) for key in (digest, name, unquote(name)) if key)
        return next((path for path in paths if path is not None), None)

    def _read_path(self, text: str) -> bytes | None:
        if len(text) > _MAX_PATH_CHARS or "\n" in text or "\x00" in text:
            return None
        clean = posixpath.normpath(text)
        if clean.startswith(("/", "..")) or clean == ".":
            return None
        try:
            return self._read_file(clean) if self._source.exists(clean) else None
        except (OSError, ValueError):
            return None

    def _read_file(self, path: str) -> bytes:
        try:
            return self._source.read_bytes(path)
        except SourceError as error:
            raise PictureError(str(error)) from error

    def _extension(self, content: bytes) -> str:
        """Return the file extension by decoding the whole picture; raise PictureError where that fails."""
        image_format = detect_format(content)
        if not image_format:
            raise PictureError(f"the file is no picture that can be decoded: it is no {FORMAT_NAMES}")
        try:
            self._source.pixels(content, 1)
        except DecodeError as error:
            if "DecompressionBomb" in str(error):
                raise PictureError("a picture of too many pixels") from error
            raise PictureError("the file is no picture that can be decoded") from error
        return EXTENSIONS[image_format]

    def _attempt(self, address: str) -> bytes | PictureError:
        try:
            return self._fetcher(address)
        except PictureError as error:
            return error


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and _ADDRESS.match(value.strip()) is not None


def _decode_data_uri(payload: str, more: str) -> bytes:
    if not more.lower().endswith(";base64"):
        return unquote_to_bytes(payload)
    content = _decode_base64(unquote(payload))
    if not content:
        raise PictureError("a data: URI with invalid base64")
    return content


def _decode_base64(text: str) -> bytes:
    packed = "".join(text.split()).translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
