"""Files in a folder on a disk or an S3-compatible store: every write is whole or absent, without append or rename."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import logging
import posixpath
import re
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

from pipelines.errors import StoreError, UsageError
from pipelines.storage.backend import FileInfo, is_remote, location_problem, relative_path
from pipelines.storage.errors import describe, is_storage_error, is_transient, no_bucket
from pipelines.storage.local_store import LocalStore, is_owned
from pipelines.storage.s3_store import S3Store

MAX_BYTES: Final = 64 << 20  # of the contents that one store holds; those used last stay
NAMED: Final = "named"  # the version of a file whose name is a hash of its content: it has no other


class FileCache:
    """Contents by path and version, up to a number of bytes; several threads may use it."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._contents: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, path: str, version: str) -> bytes | None:
        """Return the content of a file if it is cached in this version."""
        with self._lock:
            cached = self._contents.get(path)
            if cached is None or cached[0] != version:
                return None
            self._contents.move_to_end(path)
            return cached[1]

    def add(self, path: str, version: str, content: bytes) -> None:
        """Hold a content in place of the file's other versions, and drop those that were not used for longest."""
        with self._lock:
            self._drop(path)
            self._contents[path] = version, content
            self._bytes += len(content)
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._contents)))

    def drop(self, path: str) -> None:
        """Hold a file no longer."""
        with self._lock:
            self._drop(path)

    def _drop(self, path: str) -> None:
        if path in self._contents:
            self._bytes -= len(self._contents.pop(path)[1])


T = TypeVar("T")


class Store:
    """A root folder by URI. Cheap to build and safe to send to workers: it connects on first use.

    That of an object store holds what was read or written last, and does not ask for the same version again.
    """

    def __init__(self, uri: str) -> None:
        if problem := location_problem(uri):
            raise UsageError(f"{uri}: {problem}")
        self.uri = uri.rstrip("/") if is_remote(uri) else str(Path(uri).expanduser().absolute())
        self.backend: LocalStore | S3Store = (
            S3Store(self.uri.removeprefix("s3://")) if is_remote(uri) else LocalStore(self.uri)
        )
        self._cache = FileCache()

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        return (Store, (self.uri,))

    def sub(self, path: str) -> Store:
        """Return the store of a folder below this one."""
        return Store(f"{self.uri}/{relative_path(path)}")

    def put(self, path: str, content: bytes, *, hold: bool = False) -> None:
        """Write one file, whole or not at all; replace an older one atomically.

        `hold` it for `get_listed`, where reading is a request.
        """
        try:
            version = self._guard(path, lambda: self.backend.put(path, content))
        except FileNotFoundError as error:
            raise StoreError(f"{self.uri}/{path}: {error}; {self.backend.missing_parent_remedy}") from error
        if hold and version:
            self._cache.add(path, version, content)

    def put_if(self, path: str, content: bytes, version: str | None) -> str | None:
        """Write an object if its version is still `version` (None: it is absent); return the new version, else None."""
        try:
            return self._guard(path, lambda: self._s3.put_if(path, content, version))
        except FileNotFoundError as error:
            raise StoreError(f"{self.uri}/{path}: {error}; {self.backend.missing_parent_remedy}") from error

    def get_version(self, path: str, max_bytes: int | None = None) -> tuple[bytes, str]:
        """Return the content of one object of an object store, and its version for `put_if`; raise as `get`."""
        return self._guard(path, lambda: self._s3.get_version(path, max_bytes))

    def get(self, path: str, max_bytes: int | None = None) -> bytes:
        """Return the content of one file; raise FileNotFoundError, or TooLargeError above `max_bytes`."""
        return self._guard(path, lambda: self.backend.get(path, max_bytes))

    def get_listed(self, info: FileInfo) -> bytes:
        """Return the content of a file of a listing, which may be cached; raise as `get`."""
        if not info.version:
            return self.get(info.path)
        content = self._cache.find(info.path, info.version)
        if content is None:
            content, version = self.get_version(info.path)
            self._cache.add(info.path, version, content)
        return content

    def get_cached(self, path: str, version: str) -> bytes:
        """Return the content of a file by a version of its own, such as a hash; it may be cached; raise as `get`."""
        content = self._cache.find(path, version)
        if content is None:
            content = self.get(path)
            self.hold(path, version, content)
        return content

    def hold(self, path: str, version: str, content: bytes) -> None:
        """Hold the content of a stored file for `get_cached`, where reading it is a request."""
        if isinstance(self.backend, S3Store):
            self._cache.add(path, version, content)

    def forget(self, path: str) -> None:
        """Read a file again when it is needed next: what was read is damaged."""
        self._cache.drop(path)

    def exists(self, path: str) -> bool:
        """Return whether there is a file at this path."""
        return self._guard(path, lambda: self.backend.exists(path))

    def folders(self) -> list[str]:
        """Return the names of the folders at the top, sorted; none where there is no such location."""
        return self._guard("", lambda: sorted(self.backend.folders()))

    def list(self, folder: str = "", pattern: str = "*") -> list[FileInfo]:
        """Return the files anywhere below a folder whose names match, sorted by path, without hidden ones."""
        files = self._guard(folder, lambda: [*self.backend.walk(folder)])
        matching = (info for info in files if fnmatch.fnmatch(posixpath.basename(info.path), pattern))
        return sorted(matching, key=lambda info: info.path)

    def delete(self, path: str) -> None:
        """Remove one file if it exists. The caller proves that it is ours: `docs/security.md` lists all of them."""
        self._guard(path, lambda: self.backend.delete(path))

    def delete_all(self, folder: str, keep: Container[str] = (), pattern: str = "*") -> None:
        """Remove our files below a folder whose names match, but for those to `keep`; a user's own files stay."""
        for info in self.list(folder, pattern):
            if is_owned(info.path) and info.path not in keep:
                self.delete(info.path)

    def copy_aside(self, path: str, folder: str) -> None:
        """Copy a file to a folder where nothing is replaced."""
        content = self.get(path)
        copy = f"{folder}/{path}"
        if self.exists(copy) and self.get(copy) != content:
            copy = f"{copy}.{hashlib.sha256(content).hexdigest()[:8]}"
        self.put(copy, content)

    def remove_temporary(self, *, below: bool = True) -> int:
        """Remove temporary files of killed writers here, and `below`; return their number."""
        return self._guard("", lambda: self.backend.remove_temporary(below=below))

    def check_writable(self) -> None:
        """Write and remove a small file; raise StoreError early if the location is not writable."""
        probe = f".vlmsweep-probe-{uuid.uuid4().hex}"
        try:
            self.put(probe, b"")
            self.delete(probe)
        except StoreError as error:
            # The user does not know the probe and its temporary file.
            message = re.sub(r"/\.vlmsweep-(probe-\w+|\w+\.tmp)", "", str(error))
            raise StoreError(message, is_transient=error.is_transient) from error

    @property
    def _s3(self) -> S3Store:
        if not isinstance(self.backend, S3Store):
            raise TypeError(f"{self.uri}: conditional writes need an object store")
        return self.backend

    def _guard(self, path: str, operation: Callable[[], T]) -> T:
        location = f"{self.uri}/{path}" if path else self.uri
        try:
            return operation()
        except FileNotFoundError as error:
            if no_bucket(error):
                raise StoreError(f"{self.uri}: {error}; create the bucket first") from error
            raise
        except Exception as error:
            if isinstance(error, (NotADirectoryError, FileExistsError)) and (file := _file_in_path(location)):
                raise StoreError(f"{file}: expected a folder, found a file") from error
            if isinstance(self.backend, S3Store) and (problem := self.backend.region_problem(error)):
                raise StoreError(f"{location}: {problem}") from error
            if is_storage_error(error):
                raise StoreError(f"{location}: {describe(error)}", is_transient=is_transient(error)) from error
            raise


def _file_in_path(location: str) -> str:
    """Return the component of a local path that is a file or a pipe instead of a folder, or ''."""
    places = (Path(location), *Path(location).parents)
    return next((str(path) for path in places if path.exists() and not path.is_dir()), "")


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


log = logging.getLogger(__name__)

RECORD = ".vlmsweep-files.json"
"""Path -> sha256 of the files that were written last; while they are written, that before and that after."""


def publish_files(store: Store, files: Mapping[str, bytes], folder: str = "") -> None:
    """Write files, those of a report below a `folder`, from which files of its last version are deleted.

    A file that no earlier call wrote, that has changed since, or of which the record is lost or damaged, is copied to
    `replaced/` before its name is taken.
    """
    record = _load_record(store)
    existing = {info.path: info for info in store.list(folder)}
    hashes = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    stale = {path: sha256 for path, sha256 in record.items() if path not in files}
    # Until all is written a file has its old content or its new one.
    unfinished = record | {path: f"{record.get(path, '')} {sha256}".strip() for path, sha256 in hashes.items()}
    if any(record.get(path) != sha256 for path, sha256 in hashes.items()):
        store.put(RECORD, json.dumps(unfinished, indent=0).encode())
    for path, content in files.items():
        if path in existing and existing[path].is_known_to_be(content):
            continue
        if path in existing and not _holds(store, path, unfinished[path]):
            reason = "has changed since vlmsweep wrote it" if path in record else "was not written by vlmsweep"
            log.warning("%s/%s %s; a copy is in replaced/", store.uri, path, reason)
            store.copy_aside(path, "replaced")
        store.put(path, content)
    for path, sha256 in stale.items() if folder else ():
        if path in existing and _holds(store, path, sha256):
            store.delete(path)
    if not folder:
        hashes |= stale
    if hashes != record:
        store.put(RECORD, json.dumps(hashes, indent=0).encode())


def put_named(store: Store, path: str, content: bytes, mark: bytes) -> None:
    """Write a file under a name that a user may have taken: one without our `mark` is copied to `replaced/` first."""
    try:
        present = store.get(path)
    except FileNotFoundError:
        present = b""
    if present not in (b"", content) and mark not in present:
        log.warning("%s/%s was not written by vlmsweep; a copy is in replaced/", store.uri, path)
        store.copy_aside(path, "replaced")
    store.put(path, content)


def is_as_published(store: Store, path: str, content: bytes) -> bool:
    """Return whether a file's content is that of the record; one that is not on record is taken as it is."""
    sha256 = hashlib.sha256(content).hexdigest()
    return sha256 in _load_record(store).get(path, sha256).split()


def _load_record(store: Store) -> dict[str, str]:
    try:
        record = json.loads(store.get(RECORD))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    is_record = isinstance(record, dict) and all(isinstance(hashes, str) for hashes in record.values())
    return record if is_record else {}


def _holds(store: Store, path: str, hashes: str) -> bool:
    return hashlib.sha256(store.get(path)).hexdigest() in hashes.split()
