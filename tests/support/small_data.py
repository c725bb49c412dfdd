"""All five benchmarks as distributed, a few samples of each, ingested."""

from __future__ import annotations

from pathlib import Path

from jobs.generate.generate import generate
from pipelines.benchmarks import benchmark
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.support import maia_source, unpie_source, vague_source, vflute_source

__all__ = ["ingest_all", "write_all"]


def write_all(root: Path) -> dict[str, Path]:
    """Write small sources under a folder; return the folder of each."""
    flute = root / "vflute"
    test, train = vflute_source.rows(12), vflute_source.rows(12, "train")
    vflute_source.write_parquet(flute, "test", [test])
    vflute_source.write_parquet(flute, "train", [train])
    vflute_source.write_json(flute, test)
    generate(root / "mate", (3, 5), 6, 1)
    return {
        "maia": maia_source.write_source(root / "maia"),
        "mate": root / "mate",
        "unpie": unpie_source.write_source(root / "unpie"),
        "vague": vague_source.write_drive(root / "vague"),
        "vflute": flute,
    }


def ingest_all(root: Path) -> Path:
    """Write small sources under a folder and read them in; returns what `--data` names.

    Raises:
        RuntimeError: a row was rejected.
    """
    for name, source in write_all(root).items():
        result = ingest_benchmark(benchmark(name), Folder(str(source)), Store(str(root / "data")))
        if result.rejections:
            raise RuntimeError(f"{name}: {result.rejections[0]}")
    return root / "data"
