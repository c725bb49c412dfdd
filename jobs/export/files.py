"""The folder that an export fills, the media in it, names of the Hugging Face hub, and the export itself."""

import logging
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from models.scratch import scratch
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.errors import DatasetError, StoreError, UsageError
from pipelines.ingest.dataset import Dataset, media_path
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.samples.media import MediaReader
from pipelines.samples.rows import ExportedRun, ExportRow, RowReader
from pipelines.storage.errors import describe

log = logging.getLogger("vlmsweep")

HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_DATASET_OF_HUB: Final = re.compile(rf"huggingface\.co/datasets/({HUB_ID.pattern})")


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


def hub_id(definition: BenchmarkDefinition) -> str:
    """Return the data set of the hub that a benchmark cites, or ''."""
    match = _DATASET_OF_HUB.search(definition.citation)
    return match[1].rstrip(".") if match else ""


def hub_model(entry: ManifestEntry) -> str:
    """Return the weights as an id of the hub; '' for what may be a private path, and for a base with an adapter."""
    fingerprint = entry.target.fingerprint
    weights = str(fingerprint.get("model") or "")
    return weights if HUB_ID.fullmatch(weights) and not fingerprint.get("adapter") else ""


Exporter = Callable[[ExportedRun, RowReader, MediaReader, Path], list[Path]]


def export_run(
    exporter: Exporter, out: str, folder: str, *, data: str, models: Sequence[str], benchmarks: Sequence[str]
) -> list[Path]:
    """Export an output into a new folder, and return the files that a reader opens first."""
    run = ExportedRun.open(out, data=data, models=models, benchmarks=benchmarks)
    target = new_folder(folder)
    with ExitStack() as stack:
        plans = stack.enter_context(PlanStore.reading(run.out))
        media = MediaReader(stack.enter_context(scratch()))
        stack.callback(media.close)
        try:
            return exporter(run, RowReader(run, plans), media, target)
        except OSError as error:
            problem = f"{folder}: {describe(error)}"
            raise StoreError(f"{problem}, with another folder: this one holds an unfinished export") from error
        except KeyboardInterrupt:
            log.warning("%s holds an unfinished export: remove it before the same command runs again", folder)
            raise
