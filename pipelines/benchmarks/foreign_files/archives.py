"""Read members of zip archives of unknown origin within limits: what is larger is refused, nothing is executed."""

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, Self

import pyarrow as pa

from pipelines.errors import SourceError

MAX_MEMBER: Final = 32 << 20  # bytes of a member that is held
_MAX_RATIO: Final = 200  # of all that an archive holds to its size: a longer one is a bomb
_FREE_BYTES: Final = 64 << 20  # that an archive may hold whatever its size
_CHUNK: Final = 1 << 20
_ZSTD: Final = 93  # zip's number of the method, which Inspect uses and `zipfile` of this Python does not know
_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")


class UnreadableError(ValueError):
    """A part of a file that cannot be read. Says why; the rest of the file is read."""


class Archive:
    """A zip archive whose members are read one at a time, each and all within limits."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        """Open an archive, called `where` in messages; SourceError if it is none."""
        self._file, self._where = file, where
        try:
            self._zip = zipfile.ZipFile(file)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
            raise SourceError(f"{where}: cannot be read as an archive ({str(error)[:200]})") from error
        self._left = file.seek(0, os.SEEK_END) * _MAX_RATIO + _FREE_BYTES

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """The names of the members, each once, in order."""
        return list(dict.fromkeys(self._zip.namelist()))

    def read(self, name: str) -> bytes:
        """Return a member; UnreadableError if it is damaged, absent or too large."""
        return b"".join(self.chunks(name))

    def chunks(self, name: str, limit: int = MAX_MEMBER) -> Iterator[bytes]:
        """Yield a member piece by piece; UnreadableError if it is damaged, absent or too large."""
        size = 0
        for chunk in self._undamaged(name):
            size, self._left = size + len(chunk), self._left - len(chunk)
            if size > limit:
                raise UnreadableError(f"is larger than {limit >> 20} MiB")
            if self._left < 0:
                raise SourceError(f"{self._where}: holds over {_MAX_RATIO} times its size; it is no file of this kind")
            yield chunk

    def _undamaged(self, name: str) -> Iterator[bytes]:
        try:
            info = self._zip.getinfo(name)
            yield from self._zstd(info) if info.compress_type == _ZSTD else self._plain(info)
        except KeyError:
            raise UnreadableError("is missing") from None
        except UnreadableError:
            raise
        except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error) as error:
            raise UnreadableError(f"is damaged ({str(error)[:200]})") from error

    def _plain(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        with self._zip.open(info) as member:
            while chunk := member.read(_CHUNK):
                yield chunk

    def _zstd(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        """Yield a member that is compressed by zstd; its checksum is tested as `zipfile` does."""
        self._file.seek(info.header_offset)
        signature, name, extra = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        if signature != b"PK\x03\x04":
            raise UnreadableError("is damaged (no header)")
        self._file.seek(name + extra, 1)
        if info.compress_size > MAX_MEMBER:
            raise UnreadableError(f"is larger than {MAX_MEMBER >> 20} MiB")
        checksum = 0
        with pa.input_stream(pa.BufferReader(self._file.read(info.compress_size)), compression="zstd") as stream:
            while chunk := stream.read(_CHUNK):
                checksum = zlib.crc32(chunk, checksum)
                yield chunk
        if checksum != info.CRC:
            raise UnreadableError("is damaged (its checksum differs)")
