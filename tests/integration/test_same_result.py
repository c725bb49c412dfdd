"""Equal results for other numbers of replicas, other units, and shards in another order."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.benchmarks import benchmark
from pipelines.ingest.dataset import Manifest
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.integration.conftest import Cli
from tests.support.maia_source import write_source

COLUMNS = ["request_id", "status", "output", "input_tokens"]


def rows(out: Path) -> list[tuple[object, ...]]:
    tables = [pq.ParquetFile(part).read(COLUMNS) for part in out.glob("predictions/*/*/*.parquet")]
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def parts(out: Path) -> set[str]:
    return {part.name for part in out.glob("predictions/*/*/*.parquet")}


@pytest.mark.slow
def test_replicas_unit_sizes_and_shard_order_do_not_change_rows(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, turned = tmp_path / "data", tmp_path / "turned"
    source = Folder(str(write_source(tmp_path / "source", videos=6, categories=4)))
    ingest_benchmark(benchmark("maia"), source, Store(str(data)))
    monkeypatch.setattr("pipelines.ingest.ingest.SHARD_ROWS", 8)
    ingest_benchmark(benchmark("maia"), source, Store(str(turned)))
    page = turned / "maia" / "manifest.json"
    manifest = Manifest.from_json(page.read_bytes())
    assert len(manifest.shards) > 1
    page.write_bytes(replace(manifest, shards=manifest.shards[::-1]).to_json())
    results = {}
    for name, replicas, where in (("one", 1, data), ("four", 4, data), ("turned", 2, turned)):
        models, out = tmp_path / f"{name}.yaml", tmp_path / name
        models.write_text(f"m: {{engine: random, replicas: {{max: {replicas}}}}}\n")
        flags = ("--models", "m", "--models-file", str(models), "--benchmarks", "maia")
        cli("run", *flags, "--data", str(where), "--out", str(out))
        results[name] = (rows(out), json.loads((out / "report" / "metrics.json").read_text()))
    assert len(results["one"][0]) == 6 * 4 * 2 * 9 * 3
    assert results["one"] == results["four"] == results["turned"]
    assert parts(tmp_path / "one") != parts(tmp_path / "four"), "the units were cut alike, so nothing was tried"
