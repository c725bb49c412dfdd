from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.errors import DatasetError
from pipelines.ingest.dataset import Dataset, media_path, write_shard
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
