"""The one kind of state: files under a root folder, local or in an S3-compatible store.

Every write is whole or absent: one PUT (or one completed multipart upload) in a store, a temporary file and a rename on
a disk. There is no append and no rename in a store, so nothing here needs either.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import posixpath
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from pipelines.storage.errors import (
    StoreError,
    TooLargeError,
    describe,
    is_storage_error,
    is_transient,
    no_bucket,
    response_code,
)

T = TypeVar("T")

_SCHEME = "s3://"
BODY_TRIES = 4
BODY_PAUSE_S = 1.0
"""For an answer that breaks off in its middle; what fails before its beginning is tried again by the libraries."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One stored file: path relative to the store's root, and size in bytes."""

    path: str
    size: int


def is_remote(uri: str) -> bool:
    """Whether a URI names an object store; everything else is a local path."""
    return uri.startswith(_SCHEME)


class Store:
    """A root folder by URI. Cheap to build and safe to send to workers: connections are made where they are used."""

    def __init__(self, uri: str) -> None:
        if "://" in uri and not is_remote(uri):
            raise ValueError(f"{uri}: only local paths and s3:// are supported")
        self.uri = uri.rstrip("/") if is_remote(uri) else str(Path(uri).expanduser().absolute())

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        return (Store, (self.uri,))

    def sub(self, path: str) -> Store:
        """A folder below this one."""
        return Store(f"{self.uri}/{_inside(path)}")

    @cached_property
    def _fs(self) -> Any:  # fsspec has no types
        if not is_remote(self.uri):
            return None
        import s3fs

        # The endpoint and the credentials come from the environment, read by botocore itself. Few tries and short
        # time limits: an endpoint that is not there is told in seconds; the callers decide what is worth a retry.
        return s3fs.S3FileSystem(
            skip_instance_cache=True,
            config_kwargs={
                "connect_timeout": 5,
                "read_timeout": 60,
                "retries": {"max_attempts": 4, "mode": "standard"},
                "max_pool_connections": 32,
                # What newer clients add unasked, some stores refuse; parts carry a checksum of their own.
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
            },
            use_listings_cache=False,
        )

    def _full(self, path: str) -> str:
        return f"{self.uri.removeprefix(_SCHEME)}/{_inside(path)}" if path else self.uri.removeprefix(_SCHEME)

    def put(self, path: str, content: bytes) -> None:
        """Write one file, whole or not at all; an older one at the same path is replaced in one step."""
        full = self._full(path)
        try:
            if self._fs is not None:
                self._guard(path, lambda: self._fs.pipe_file(full, content))
            else:
                self._guard(path, lambda: _replace_atomically(Path(full), content))
        except FileNotFoundError as error:
            remedy = "create the bucket first" if self._fs is not None else "no folder can be made there"
            raise StoreError(f"{self.uri}/{path}: {error}; {remedy}") from error

    def put_if(self, path: str, content: bytes, version: str | None) -> str | None:
        """Write one object of an object store on the condition that nobody else wrote it meanwhile.

        Args:
            path: relative to the root.
            content: what to write.
            version: the version that must be there now, as this or `get_version` returned it; None: nothing may be.

        Returns:
            The new version; None when something else is there.
        """
        bucket, _, key = self._full(path).partition("/")
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}

        def put() -> Any:
            return self._fs.call_s3("put_object", Bucket=bucket, Key=key, Body=content, **condition)

        try:
            return str(self._guard(path, put)["ETag"])
        except (StoreError, FileNotFoundError) as error:
            if response_code(error) in ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"):
                return None
            if isinstance(error, FileNotFoundError):
                raise StoreError(f"{self.uri}/{path}: {error}; create the bucket first") from error
            raise

    def get_version(self, path: str, most: int | None = None) -> tuple[bytes, str]:
        """The content of one object of an object store, and its version for `put_if`.

        Raises:
            FileNotFoundError: there is none.
            TooLargeError: it has more than `most` bytes; none of them was fetched.
        """
        from fsspec.asyn import sync

        bucket, _, key = self._full(path).partition("/")

        def fetch() -> tuple[bytes, str]:
            for left in range(BODY_TRIES - 1, -1, -1):
                answer = self._fs.call_s3("get_object", Bucket=bucket, Key=key)  # itself tried again
                with contextlib.closing(answer["Body"]) as body, _unless(left):
                    _few_enough(path, answer.get("ContentLength", 0), most)
                    return bytes(sync(self._fs.loop, body.read)), str(answer["ETag"])
            raise AssertionError("unreachable")

        return self._guard(path, fetch)

    def get(self, path: str, most: int | None = None) -> bytes:
        """The content of one file.

        Raises:
            FileNotFoundError: there is none.
            TooLargeError: it has more than `most` bytes.
        """
        if self._fs is not None:
            return self.get_version(path, most)[0]  # one request: s3fs's own way asks first, and is not told why
        return self._guard(path, lambda: _read(Path(self._full(path)), path, most))

    def exists(self, path: str) -> bool:
        """Whether there is a file at this path."""
        full = self._full(path)
        if self._fs is not None:
            try:
                return bool(self._guard(path, lambda: self._fs.info(full))["type"] == "file")
            except FileNotFoundError:
                return False
        return self._guard(path, Path(full).is_file)

    def list(self, folder: str = "", pattern: str = "*") -> list[FileInfo]:
        """Files anywhere below a folder whose names match, sorted by path; hidden and temporary files are left out."""
        base = self._full(folder)
        found = self._guard(folder, lambda: list(self._walk(base)))
        return sorted(
            (info for info in found if fnmatch.fnmatch(posixpath.basename(info.path), pattern)), key=lambda i: i.path
        )

    def _walk(self, base: str) -> Iterator[FileInfo]:
        root = self._full("")
        if self._fs is not None:
            try:
                entries = self._fs.find(base, detail=True)
            except FileNotFoundError as error:
                if no_bucket(error):
                    raise
                return
            for name, info in entries.items():
                if info.get("type") == "file" and not name.endswith("/"):  # some stores list folder markers
                    yield FileInfo(name.removeprefix(root).lstrip("/"), int(info["size"]))
            return
        for folder, names, files in os.walk(base, onerror=_unless_gone):
            names[:] = [name for name in names if not name.startswith(".")]
            for file in files:
                path = Path(folder, file)
                with contextlib.suppress(FileNotFoundError):  # a dangling link, or gone since it was listed
                    if not file.startswith("."):
                        yield FileInfo(path.relative_to(root).as_posix(), path.stat().st_size)

    def delete(self, path: str) -> None:
        """Remove one file; nothing happens when there is none."""
        full = self._full(path)
        if self._fs is not None:
            if self.exists(path):
                self._guard(path, lambda: self._fs.rm_file(full))
            return
        self._guard(path, partial(Path(full).unlink, missing_ok=True))

    def remove_temporary(self) -> int:
        """Remove what writers that were killed in the middle of `put` left on a disk; for who holds the folder alone.

        Returns:
            How many files there were.
        """
        if is_remote(self.uri):
            return 0  # a put that did not end leaves nothing there
        left = [path for path in Path(self.uri).rglob(".*.tmp") if path.is_file()]
        for path in left:
            self._guard(path.name, partial(path.unlink, missing_ok=True))
        return len(left)

    def check_writable(self) -> None:
        """Write and remove a small file, so that a bad output place is told before the work and not after it.

        Raises:
            StoreError: it cannot be written.
        """
        probe = f".vlmsweep-probe-{uuid.uuid4().hex}"
        try:
            self.put(probe, b"")
            self.delete(probe)
        except StoreError as error:
            # Nobody looks for the probe; the temporary file of a disk is named after it.
            told = StoreError(re.sub(rf"/\.?{re.escape(probe)}(\.\w+\.tmp)?", "", str(error)))
            told.passing = error.passing
            raise told from error

    def _guard(self, path: str, action: Callable[[], T]) -> T:
        """Run one store operation; what the libraries raise becomes a `StoreError` that a person can act on."""
        place = f"{self.uri}/{path}" if path else self.uri
        try:
            return action()
        except FileNotFoundError as error:
            if no_bucket(error):
                raise StoreError(f"{self.uri}: {error}; create the bucket first") from error
            raise
        except Exception as error:
            if isinstance(error, (NotADirectoryError, FileExistsError)) and (file := _file_on_the_way(place)):
                raise StoreError(f"{file}: a file stands where a folder is wanted") from error
            if is_storage_error(error):
                told = StoreError(f"{place}: {describe(error)}")
                told.passing = is_transient(error)
                raise told from error
            raise


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # gone since it was listed, or never there
        raise error


def _file_on_the_way(place: str) -> str:
    """The file that is no folder, on the way to a local path; '' when there is none."""
    return next((str(path) for path in (Path(place), *Path(place).parents) if path.is_file()), "")


def _inside(path: str) -> str:
    """A relative path that cannot leave its folder."""
    clean = posixpath.normpath(path)
    if clean.startswith(("/", "..")) or "\x00" in clean:
        raise ValueError(f"{path!r} leaves its folder")
    return clean


def _replace_atomically(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name}.{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:  # a signal is no reason to leave anything either
        temporary.unlink(missing_ok=True)
        raise
    _keep_name(target.parent)


def _keep_name(folder: Path) -> None:
    """See that a new name in a folder outlasts a loss of power, where the system can."""
    with contextlib.suppress(OSError):  # some network disks refuse
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _unless(left: int) -> Iterator[None]:
    """Let pass what a store's libraries raise while so many tries are left, after a pause."""
    try:
        yield
    except Exception as error:
        if not left or not is_storage_error(error):
            raise
        time.sleep(BODY_PAUSE_S)


def _read(full: Path, path: str, most: int | None) -> bytes:
    if most is None:
        return full.read_bytes()
    with full.open("rb") as file:
        _few_enough(path, os.fstat(file.fileno()).st_size, most)
        content = file.read(most + 1)  # a device says that it is empty, and never ends
    _few_enough(path, len(content), most)
    return content


def _few_enough(path: str, size: int, most: int | None) -> None:
    if most is not None and size > most:
        raise TooLargeError(f"{path}: {size:,} bytes, more than the limit of {most:,} bytes for such a file")
