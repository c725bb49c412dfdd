"""The folder of a site: a marker lists the files that earlier calls wrote, and only those are replaced or deleted."""

import hashlib
from pathlib import Path
from typing import Final

from models.guards.regular_files import open_regular, read_regular
from pipelines.errors import StoreError, UsageError
from pipelines.storage.backend import is_remote
from pipelines.storage.lock_owner import LOCK
from pipelines.storage.owned_files import TEMPORARY
from pipelines.storage.store import Store

MARKER: Final = ".vlmsweep-site"  # lines `sha256  path`, as `sha256sum` writes them
_Files = set[tuple[str, str]]  # hash and path


class SiteFolder:
    """A folder that is new, empty or has our marker; its files are replaced when all new ones are there."""

    def __init__(self, name: str) -> None:
        """Open a folder; UsageError where it is not ours, StoreError where it cannot be read."""
        if is_remote(name):
            raise UsageError(f"--to {name}: only local folders are supported; upload the folder yourself")
        self._name, self.path = name, Path(name).expanduser().resolve()
        try:
            entries = sorted(entry.name for entry in self.path.iterdir()) if self.path.exists() else []
            # `run_lock` refuses one of the user.
            entries = [name for name in entries if name != LOCK and not TEMPORARY.fullmatch(name)]
            text = read_regular(self.path / MARKER).decode() if MARKER in entries else ""
        except NotADirectoryError as error:
            raise UsageError(f"--to {name}: is a file; give a folder") from error
        except OSError as error:
            raise StoreError(f"--to {name}: cannot be read ({error.strerror})") from error
        if entries and MARKER not in entries:
            raise UsageError(f"--to {name}: holds files that `site` did not write ({entries[0]}); give a new folder")
        self._recorded: _Files = {(line[:64], line[66:]) for line in text.splitlines() if line[64:66] == "  "}

    def publish(self, staged: Path) -> int:
        """Copy the files of a folder here, delete those of the last call that it lacks; return the number of files.

        UsageError, before any is written, where one in the way was not written by `site`, or has changed since.
        """
        files = {path.relative_to(staged).as_posix(): path for path in sorted(staged.rglob("*")) if path.is_file()}
        hashes = {path: _sha256(file) for path, file in files.items()}
        current = {path: self._hash_in_place(path) for path in {*files, *(path for _, path in self._recorded)}}
        for path, sha256 in hashes.items():
            if current[path] and current[path] != sha256 and (current[path], path) not in self._recorded:
                raise UsageError(f"{self._name}/{path}: `site` did not write it, or it has changed; move it away")
        store = Store(str(self.path))
        written = {(sha256, path) for path, sha256 in hashes.items()}
        # Until all is written a file of the marker has its old content or its new one.
        store.put(MARKER, _lines(self._recorded | written))
        for path, file in files.items():
            if current[path] != hashes[path]:
                store.put(path, file.read_bytes())
        for sha256, path in self._recorded:
            if path not in files and current[path] == sha256:
                store.delete(path)
        store.put(MARKER, _lines(written))
        return len(files)

    def _hash_in_place(self, path: str) -> str:
        """Return the hash of a file here; '' where there is none. A link is never followed."""
        target = self.path / path
        if target.resolve() != target or not target.is_relative_to(self.path):
            raise UsageError(f"{self._name}/{path}: leads out of the folder, or through a link; move it away")
        return _sha256(target) if target.exists() else ""


def _sha256(path: Path) -> str:
    if not path.is_file():
        return "no file"
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lines(files: _Files) -> bytes:
    return "".join(f"{sha256}  {path}\n" for sha256, path in sorted(files, key=lambda file: file[::-1])).encode()
