"""The folder that an export fills, and the media in it."""

from __future__ import annotations

import shutil
from pathlib import Path

from jobs.export.rows import ExportRow
from jobs.view.media import MediaReader
from pipelines.errors import DatasetError, StoreError, UsageError
from pipelines.ingest.dataset import Dataset, media_path


def new_folder(name: str) -> Path:
    """Create a local folder; UsageError for an address or a folder with files, StoreError where none can be made."""
    if ":/" in name:
        raise UsageError(f"{name}: only local folders are supported")
    folder = Path(name).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise StoreError(f"{name}: no folder can be created there ({error.strerror})") from error
    if not is_empty:
        raise UsageError(f"{name}: holds files already; give a new folder, so that no older export mixes with this one")
    return folder


def copy_media(row: ExportRow, kind: str, media: MediaReader, dataset: Dataset, folder: Path) -> list[str]:
    """Copy the media of a row that are not there yet, those of a kind if not ''; return their paths in the folder."""
    paths = []
    for medium in row.media:
        if medium.ref is None or (kind and medium.kind != kind):
            continue
        path = media_path(medium.ref)
        if not (folder / path).resolve().is_relative_to(folder.resolve() / "media"):
            raise DatasetError(f"{dataset.store.uri}: a medium is stored as {path}, outside of the folder of media")
        if not (folder / path).exists():
            (folder / path).parent.mkdir(exist_ok=True)
            shutil.copyfile(media.file(dataset, medium.ref), folder / path)
        paths.append(path)
    return paths
