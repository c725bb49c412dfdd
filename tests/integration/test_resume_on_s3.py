"""Data and output in an object store, a real model, the driver killed midway: every request exactly once."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import REAL_MAIA
from tests.integration.conftest import S3, Cli
from tests.support.checkpoints import build_tiny


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen2.5-VL of random weights."""
    return build_tiny(tmp_path_factory.mktemp("tiny"), "qwen2_5_vl")


@pytest.fixture(scope="session")
def clips(request: pytest.FixtureRequest) -> tuple[Path, int]:
    """The published clips where this machine has them, else small generated ones; and their number."""
    if REAL_MAIA.is_dir():
        return REAL_MAIA, 2  # of the five that there are: enough to be killed in the middle of
    return request.getfixturevalue("maia_source"), 2


def keys(s3: S3, prefix: str) -> list[str]:
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix=prefix)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def read(s3: S3, key: str) -> bytes:
    return s3.client().get_object(Bucket="bench", Key=key)["Body"].read()


def predictions(s3: S3, out: str) -> pa.Table:
    parts = [key for key in keys(s3, f"{out}/predictions/") if key.endswith(".parquet")]
    return pa.concat_tables([pq.ParquetFile(io.BytesIO(read(s3, key))).read() for key in parts])


def wait_for_parts(s3: S3, out: str, count: int, process: subprocess.Popen[bytes], seconds: float = 480) -> None:
    deadline = time.monotonic() + seconds
    while len(keys(s3, f"{out}/predictions/")) < count:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline, "no part was committed in time"
        time.sleep(0.2)


def sweep_killed_once(
    s3: S3, cli: Cli, env: dict[str, str], source: Path, tiny: Path, tmp_path: Path, videos: int
) -> dict:
    """Ingest into the store, kill the first run after two parts, run the same command again."""
    models = tmp_path / "models.yaml"
    models.write_text(
        f"tiny: {{engine: transformers, model: {tiny}, dtype: float32, device: cpu, limits: {{max_pixels: 3072}}, "
        "generation: {max_new_tokens: 4}}\ncoin: {engine: random}\n"
    )
    data, out = "s3://bench/resume/data", "resume/out"
    cli("ingest", "maia", str(source), "--data", data, env=s3.env)
    flags = ("--models", "tiny", "--models-file", str(models), "--judge", "coin", "--benchmarks", "maia")
    flags = (*flags, "--limit", str(24 * videos))
    command = ("run", *flags, "--data", data, "--out", f"s3://bench/{out}")
    (plan,) = json.loads(cli(*command, "--dry-run", "--json", env=s3.env).stdout)["plan"]
    with (tmp_path / "first.log").open("wb") as log:
        first = subprocess.Popen(
            [sys.executable, "-m", "jobs.cli", *command], env={**env, **s3.env}, stdout=log, stderr=log
        )
        wait_for_parts(s3, out, 2, first)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    committed = {key: read(s3, key) for key in keys(s3, f"{out}/predictions/")}
    before = predictions(s3, out).num_rows
    result = cli(*command, env=s3.env)
    return {"plan": plan, "out": out, "kept": committed, "before": before, "stdout": result.stdout}


def check(s3: S3, run: dict, videos: int) -> None:
    table = predictions(s3, run["out"])
    ids = Counter(table["request_id"].to_pylist())
    assert set(ids.values()) == {1}
    assert table.num_rows == len(ids) == run["plan"]["requests"] == 648 * videos
    assert 0 < run["before"] < table.num_rows
    assert set(table["status"].to_pylist()) == {"ok"}
    cells = Counter(zip(table["task"].to_pylist(), table["setting"].to_pylist(), strict=True))
    for setting in ("black-video", "1-frame", "32-frames"):
        assert cells["vsv", setting] == 192 * videos
        assert cells["oevqa", setting] == 24 * videos
    assert run["plan"]["media_groups"] == 2 * videos + 1
    for key, content in run["kept"].items():
        assert read(s3, key) == content, "what was committed was computed again"
    rows = json.loads(read(s3, f"{run['out']}/report/metrics.json"))
    (row,) = [r for r in rows if (r["metric"], r["setting"], r["category"]) == ("agg_acc", "32-frames", "")]
    assert row["n"] == 24 * videos
    assert b"<html" in read(s3, f"{run['out']}/report/index.html")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_run_on_s3_resumes(
    s3: S3, cli: Cli, command_env: dict[str, str], clips: tuple[Path, int], tiny: Path, tmp_path: Path
) -> None:
    source, videos = clips
    run = sweep_killed_once(s3, cli, command_env, source, tiny, tmp_path, videos)
    check(s3, run, videos)
