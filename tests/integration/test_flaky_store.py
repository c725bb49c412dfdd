"""A store that fails one response in twenty, before or after executing it: the sweep's result is the same."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.storage.lock import LOCK
from tests.integration.conftest import S3, Cli, s3_server

FAILING = 0.05


def contents(s3: S3, prefix: str) -> dict[str, bytes]:
    client = s3.client()
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix=prefix)
    keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
    return {key.removeprefix(prefix): client.get_object(Bucket="bench", Key=key)["Body"].read() for key in keys}


def rows(files: dict[str, bytes]) -> list[tuple[str, str, str]]:
    results = []
    for name, content in files.items():
        if name.startswith("/predictions/"):
            table = pq.ParquetFile(io.BytesIO(content)).read(["request_id", "status", "output"])
            results += [tuple(row.values()) for row in table.to_pylist()]
    return sorted(results)


@pytest.mark.slow
def test_sweep_on_a_failing_store_gives_the_same_rows(cli: Cli, maia_data: str, tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("chance: {engine: random}\n")
    flags = ("--models", "chance", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "oevqa")
    cli("run", *flags, "--data", maia_data, "--out", str(tmp_path / "calm"))
    with s3_server(tmp_path / "log", FAILING) as s3:
        for path in Path(maia_data).rglob("*"):
            if path.is_file():
                key = f"data/{path.relative_to(maia_data).as_posix()}"
                s3.client().put_object(Bucket="bench", Key=key, Body=path.read_bytes())
        cli("run", *flags, "--data", "s3://bench/data", "--out", "s3://bench/out", env=s3.env)
        remaining = contents(s3, "out")
    calm = {f"/{p.relative_to(tmp_path / 'calm')}": p.read_bytes() for p in (tmp_path / "calm").rglob("*.*")}
    assert rows(remaining) == rows(calm)
    assert set(Counter(row[0] for row in rows(remaining)).values()) == {1}
    assert json.loads(remaining["/report/metrics.json"]) == json.loads(calm["/report/metrics.json"])
    assert f"/{LOCK}" not in remaining
    failures = (tmp_path / "log").read_text().count('" 50')
    assert failures > 5, "the store did not fail"
