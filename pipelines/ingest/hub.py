"""Data sets of the Hugging Face hub: `hf://datasets/OWNER/NAME@REVISION`, and its cache as it lies on disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pipelines.errors import StoreError, UsageError

PREFIX: Final = "hf://"
_ADDRESS = re.compile(r"hf://datasets/(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?/?")


def download(address: str) -> Path:
    """Return the folder of a data set of the hub, fetched to its cache; StoreError where it cannot be had."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise UsageError(f"{address}: give hf://datasets/OWNER/NAME@REVISION, the revision a commit, tag or branch")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        folder = snapshot_download(match["name"], repo_type="dataset", revision=match["revision"])
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        problem = str(error).strip().partition("\n")[0][:200]
        raise StoreError(
            f"{address}: the hub cannot be reached, or has no such data set ({problem}); download it where there is a "
            "network, and give its folder"
        ) from error
    return Path(folder)


def snapshot_of_cache(folder: Path) -> Path:
    """Return the snapshot of a data set's folder in the hub's cache, that of `main` first; else the folder itself."""
    snapshots = folder / "snapshots"
    if not snapshots.is_dir():
        return folder
    main = folder / "refs" / "main"
    names = sorted(path.name for path in snapshots.iterdir())
    chosen = main.read_text(encoding="utf-8").strip() if main.is_file() else ""
    if chosen not in names and len(names) != 1:
        raise UsageError(f"{snapshots}: {len(names)} snapshots and no refs/main; give one of the folders in it")
    return snapshots / (chosen if chosen in names else names[0])
