"""Read JSON and members of archives of unknown origin within limits: what is larger is refused, nothing is executed."""

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from models.guards.regular_files import open_regular, read_regular
from pipelines.errors import UsageError

MAX_TEXT: Final = 32 << 20  # bytes of a line, of a member of an archive, of a cell
MAX_JSON: Final = 128 << 20  # bytes of a file that is one JSON value
_MAX_RATIO: Final = 200  # of all that an archive holds to its size: a longer one is a bomb
_FREE_BYTES: Final = 64 << 20  # that an archive may hold whatever its size
_CHUNK: Final = 1 << 20
_ZSTD: Final = 93  # zip's number of the method, which Inspect uses and `zipfile` of this Python does not know
_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")


class UnreadableError(ValueError):
    """A part of a log that cannot be read. Says why; the rest of the log is read."""


def parse(content: bytes | str) -> Any:
    """Return a JSON value; UnreadableError for anything else."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists without end
        raise UnreadableError(f"is not readable as JSON ({error})") from error


def json_lines(path: Path) -> Iterator[tuple[int, Any | UnreadableError]]:
    """Yield the values of a file of JSON lines by line number, or why a line has none; UsageError for no file."""
    try:
        with open_regular(path) as file:
            number = 0
            while line := file.readline(MAX_TEXT + 1):
                number += 1
                if len(line) > MAX_TEXT:
                    while (chunk := file.readline(_CHUNK)) and not chunk.endswith(b"\n"):
                        pass
                    yield number, UnreadableError(f"is longer than {MAX_TEXT >> 20} MiB")
                elif stripped := line.removeprefix(b"\xef\xbb\xbf").strip():
                    try:
                        yield number, parse(stripped)
                    except UnreadableError as error:
                        yield number, error
    except OSError as error:
        raise UsageError(f"--predictions {path}: cannot be read ({error})") from error


def json_file(path: Path) -> Any:
    """Return the value of a file; UsageError where it has none, or is too large."""
    try:
        size = path.stat().st_size
        if size > MAX_JSON:
            raise UsageError(
                f"--predictions {path}: {size >> 20:,} MiB of JSON in one value, at most {MAX_JSON >> 20} are read; "
                "give the tool's other form, such as Inspect's .eval"
            )
        return parse(read_regular(path))
    except OSError as error:
        raise UsageError(f"--predictions {path}: cannot be read ({error})") from error
    except UnreadableError as error:
        raise UsageError(f"--predictions {path}: {error}") from error


class Archive:
    """A zip archive whose members are read one at a time, each and all within limits."""

    def __init__(self, path: Path) -> None:
        """Open an archive; UsageError where it is none."""
        self._path = path
        file = None
        try:
            file = open_regular(path)
            self._file, self._zip = file, zipfile.ZipFile(file)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
            if file is not None:
                file.close()
            raise UsageError(f"--predictions {path}: cannot be read as an archive ({str(error)[:200]})") from error
        self._left = path.stat().st_size * _MAX_RATIO + _FREE_BYTES

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    @property
    def names(self) -> list[str]:
        """The names of the members, each once, in order."""
        return list(dict.fromkeys(self._zip.namelist()))

    def read(self, name: str) -> bytes:
        """Return a member; UnreadableError where it is damaged, absent or too large."""
        return b"".join(self.chunks(name))

    def chunks(self, name: str, limit: int = MAX_TEXT) -> Iterator[bytes]:
        """Yield a member piece by piece; UnreadableError where it is damaged, absent or too large."""
        size = 0
        for chunk in self._undamaged(name):
            size, self._left = size + len(chunk), self._left - len(chunk)
            if size > limit:
                raise UnreadableError(f"is larger than {limit >> 20} MiB")
            if self._left < 0:
                raise UsageError(f"--predictions {self._path}: holds over {_MAX_RATIO} times its size; it is no log")
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
        if info.compress_size > MAX_TEXT:
            raise UnreadableError(f"is larger than {MAX_TEXT >> 20} MiB")
        checksum = 0
        with pa.input_stream(pa.BufferReader(self._file.read(info.compress_size)), compression="zstd") as stream:
            while chunk := stream.read(_CHUNK):
                checksum = zlib.crc32(chunk, checksum)
                yield chunk
        if checksum != info.CRC:
            raise UnreadableError("is damaged (its checksum differs)")
