"""`vlmsweep ingest`: read a benchmark as distributed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from jobs.config_file import ConfigFile
from jobs.flags import DataUri, Json, Verbose
from jobs.output import prepare, print_json, print_line
from jobs.progress import Progress


def ingest(
    benchmark: Annotated[str, typer.Argument(help="The benchmark of the source.")],
    source: Annotated[str, typer.Argument(help="The benchmark as distributed: a folder or s3://bucket/key.")],
    data: DataUri,
    column_map: Annotated[Path | None, typer.Option("--column-map", help="YAML: our names -> the source's.")] = None,
    config: ConfigFile = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Read a benchmark as distributed, validate every row, write canonical shards."""
    from jobs.spec_builder import read_column_map
    from pipelines.benchmarks import benchmark as by_name
    from pipelines.ingest.ingest import ingest_benchmark as read_in
    from pipelines.ingest.source_folder import Folder
    from pipelines.storage.store import Store

    prepare(verbose=verbose)
    chosen = by_name(benchmark)
    columns = read_column_map(column_map) if column_map else None
    progress = Progress(quiet=json)
    progress.phase(f"ingest {benchmark}", 0)
    result = read_in(chosen, Folder(source), Store(data), column_map=columns, progress=lambda _: progress.advance(1, 0))
    manifest = result.manifest
    where = f"{Store(data).uri}/{benchmark}"
    if result.rejections:
        first = result.rejections[0]
        logging.getLogger("vlmsweep").warning(
            "%d rows rejected, listed in %s/rejected.jsonl; the first: %s: %s",
            len(result.rejections),
            where,
            first.item,
            first.reason,
        )
    if json:
        print_json(
            {
                "benchmark": benchmark,
                "samples": manifest.samples,
                "rejected": manifest.rejected,
                "media": manifest.media,
                "dataset_fingerprint": manifest.dataset_fingerprint,
                "data": where,
            }
        )
    else:
        print_line(f"{manifest.samples} samples, {manifest.media} media, {manifest.rejected} rejected -> {where}")
