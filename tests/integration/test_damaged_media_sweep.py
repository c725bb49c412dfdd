"""A sweep over damaged clips and pictures that ingest never checked: each costs only its own row."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.benchmarks.records import Sample
from pipelines.ingest.dataset import Dataset, write_shard
from pipelines.storage.store import Store
from tests.chaos.media import Specimen, corpus
from tests.integration.conftest import Cli
from tests.support.fingerprints import fingerprint
from tests.support.small_data import ingest_all


def showing(sample: Sample, specimen: Specimen, store: Store) -> Sample:
    """Return a copy of a sample that shows a specimen under the specimen's own hash."""
    (ref,) = sample.media
    digest, extension = hashlib.sha256(specimen.content).hexdigest(), Path(specimen.name).suffix
    store.put(f"media/{digest}{extension}", specimen.content)
    shown_medium = replace(ref, sha256=digest, extension=extension, bytes=len(specimen.content))
    name = f"{specimen.name}-{digest[:8]}"
    return replace(sample, sample_id=name, cluster=name, media=(shown_medium,))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("kind", "name", "selection"),
    [
        ("video", "maia", ("--tasks", "oevqa", "--settings", "32-frames")),
        ("image", "vague", ("--tasks", "mcq", "--settings", "vlm")),
    ],
)
def test_damaged_medium_costs_only_its_own_row(
    cli: Cli, tmp_path: Path, kind: str, name: str, selection: tuple[str, ...]
) -> None:
    data, out = ingest_all(tmp_path), tmp_path / "out"
    store, whole = Store(str(data / name)), Dataset.open(Store(str(data)), name)
    first, *other_entries = whole.samples()
    media = {hashlib.sha256(item.content).hexdigest(): item for item in corpus() if item.kind == kind}
    samples = [first, *other_entries, *(showing(first, specimen, store) for specimen in media.values())]
    shard = write_shard(store, "samples/all.parquet", samples)
    manifest = replace(whole.manifest, shards=(shard,), samples=len(samples), dataset_fingerprint=fingerprint(samples))
    store.put("manifest.json", manifest.to_json())

    flags = ("--models", "random", "--benchmarks", name, *selection, "--data", str(data))
    result = cli("predict", *flags, "--out", str(out), code=1)
    assert "Traceback" not in result.stderr
    parts = out.glob("predictions/*/*/*.parquet")
    rows = {row["sample_id"]: row for part in parts for row in pq.ParquetFile(part).read().to_pylist()}
    assert len(rows) == len(samples)
    outcomes = {f"{item.name}-{digest[:8]}": item.outcome for digest, item in media.items()}
    for sample_id, row in rows.items():
        outcome = outcomes.get(sample_id, "decodes")
        if outcome != "either":
            assert row["status"] == ("ok" if outcome == "decodes" else "error"), (sample_id, row["error"])
        assert row["status"] == "ok" or (row["error_type"], bool(row["error"])) == ("media", True), row
    errors = sum(row["status"] == "error" for row in rows.values())
    assert errors > 30, errors
