"""Data sets of the Hugging Face hub: `hf://datasets/OWNER/NAME@REVISION`, its cache as it lies on disk, their cards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

from pipelines.errors import StoreError, UsageError
from pipelines.ingest.source_folder import Folder

PREFIX: Final = "hf://"
_CARD: Final = "README.md"
_FRONT_MATTER: Final = re.compile(r"---\s*\n(.*?)\n---\s*(\n|$)", re.DOTALL)
_MAX_TITLE: Final = 200
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


def card_title(folder: Folder) -> str:
    """Return the `pretty_name` of a data set's card; '' where it has none, or no card."""
    text = folder.read_bytes(_CARD).decode("utf-8-sig", "replace") if folder.exists(_CARD) else ""
    match = _FRONT_MATTER.match(text)
    fields: Any = None
    try:
        fields = yaml.safe_load(match[1]) if match else None
    except (yaml.YAMLError, ValueError, RecursionError):  # a card is for people: a damaged one has no title
        return ""
    name = fields.get("pretty_name") if isinstance(fields, dict) else ""
    return " ".join(name.split())[:_MAX_TITLE] if isinstance(name, str) else ""
