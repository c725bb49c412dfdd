"""Files for people in a folder where a user may keep their own: what was written is on record, and only that goes."""

from __future__ import annotations

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

    A file that no earlier call wrote, or that has changed since, is copied to `replaced/` before its name is taken.
    Reports of versions that kept no record are recognized by their page.
    """
    record = _load_record(store)
    existing = {info.path: info for info in store.list(folder)}
    is_ours = record is None and _is_report(store, f"{folder}/index.html", existing)
    record = record or {}
    hashes = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    stale = {path: sha256 for path, sha256 in record.items() if path not in files}
    # Until all is written a file has its old content or its new one.
    unfinished = record | {path: f"{record.get(path, '')} {sha256}".strip() for path, sha256 in hashes.items()}
    if any(record.get(path) != sha256 for path, sha256 in hashes.items()):
        store.put(RECORD, json.dumps(unfinished, indent=0).encode())
    for path, content in files.items():
        if path in existing and existing[path].is_known_to_be(content):
            continue
        if path in existing and not is_ours and not _holds(store, path, unfinished[path]):
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
    return sha256 in (_load_record(store) or {}).get(path, sha256).split()


def _load_record(store: Store) -> dict[str, str] | None:
    try:
        record = json.loads(store.get(RECORD))
    except (FileNotFoundError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _is_report(store: Store, page: str, existing: Mapping[str, object]) -> bool:
    return page in existing and b"vlmsweep" in store.get(page)


def _holds(store: Store, path: str, hashes: str) -> bool:
    return hashlib.sha256(store.get(path)).hexdigest() in hashes.split()
