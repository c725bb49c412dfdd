"""Files for people in a folder where a user may keep their own: what was written is on record, and only that goes."""

import hashlib
import json
import logging
from collections.abc import Mapping

from pipelines.storage.store import Store

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
