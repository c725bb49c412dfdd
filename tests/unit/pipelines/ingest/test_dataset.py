from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.errors import DatasetError
from pipelines.ingest.dataset import Dataset, Manifest, SampleReader, media_path, write_shard
from pipelines.storage.store import Store
from tests.support.fingerprints import fingerprint

PICTURE = MediaRef(
    role="picture", kind="image", sha256="a" * 64, extension=".png", bytes=1, width=2, height=3, frames=1, fps=0.0
)
SAMPLE = Sample(
    sample_id="s1", category="c", subset="", cluster="s1", media=(PICTURE,), data={"text": "caffè", "list": [1, None]}
)


def test_fingerprint_and_shard_depend_on_content_alone(tmp_path: Path) -> None:
    other = replace(SAMPLE, sample_id="s2")
    assert fingerprint([SAMPLE, other]) == fingerprint([other, SAMPLE])
    assert fingerprint([SAMPLE]) != fingerprint([replace(SAMPLE, data={"text": "caffe"})])
    assert fingerprint([SAMPLE]) != fingerprint([replace(SAMPLE, media=(replace(PICTURE, sha256="b" * 64),))])
    info = write_shard(Store(str(tmp_path)), "samples/part.parquet", [SAMPLE])
    assert (info.path, info.rows, len(info.sha256)) == ("samples/part.parquet", 1, 64)
    assert media_path(PICTURE) == f"media/{'a' * 64}.png"


def test_missing_data_names_the_ingest_command(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="run `vlmsweep ingest maia SOURCE --data"):
        Dataset.open(Store(str(tmp_path)), "maia")


def dataset_of(samples: list[Sample], folder: Path, per_shard: int) -> Dataset:
    store = Store(str(folder))
    starts = range(0, len(samples), per_shard)
    shards = [write_shard(store, f"samples/{start}.parquet", samples[start : start + per_shard]) for start in starts]
    manifest = Manifest(
        benchmark="maia", dataset_fingerprint="f", source="", samples=len(samples), rejected=0, media=0, media_bytes=0,
        counts={}, shards=tuple(shards), notices=(),
    )  # fmt: skip
    return Dataset(store, manifest)


@pytest.mark.parametrize("have_equal_hashes", [False, True])
def test_samples_are_read_by_id(have_equal_hashes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if have_equal_hashes:
        monkeypatch.setattr("pipelines.ingest.dataset._hashes", lambda ids: np.zeros(len(ids), np.int64))
    samples = [replace(SAMPLE, sample_id=f"s{number}", data={"n": number}) for number in range(700)]
    reader = SampleReader(dataset_of(samples, tmp_path, per_shard=300))
    wanted = {"s0", "s299", "s300", "s599", "s699"}
    assert reader.read({*wanted, "unknown"}) == {name: samples[int(name[1:])] for name in wanted}
    assert reader.read(()) == {}
    assert SampleReader(dataset_of([], tmp_path, per_shard=1)).read({"s0"}) == {}


def test_only_row_groups_of_wanted_samples_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [replace(SAMPLE, sample_id=f"s{number}") for number in range(700)]
    reader, groups = SampleReader(dataset_of(samples, tmp_path, per_shard=300)), list[int]()
    read = pq.ParquetFile.read_row_groups
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_groups",
        lambda file, numbers, **kwargs: groups.extend(numbers) or read(file, numbers, **kwargs),
    )
    reader.read({"s130", "s140", "s310"})
    assert groups == [1, 0]
