"""A clip that kills its loading process, as from a lack of memory, costs only its own rows of a unit of two clips."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.chaos.sweeps import parts

DEADLY = """
import os, sys
import pipelines.predict.executor
import pipelines.predict.stage
from jobs.cli.main import run
from pipelines.predict.loader import UnitLoaderSpec
from pipelines.predict.loader import Loader

class DeadlyLoader(Loader):
    def _decode(self, media, sample, store, *, shared):
        if sample.sample_id.startswith("video1/"):
            os.kill(os.getpid(), 9)
        return super()._decode(media, sample, store, shared=shared)

class Deadly(UnitLoaderSpec):
    def build(self, frames=None):
        loader = super().build(frames)
        loader.__class__ = DeadlyLoader
        return loader

pipelines.predict.stage.UnitLoaderSpec = Deadly
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.slow
def test_clip_that_kills_its_loader_costs_only_its_own_rows(
    maia_data: str, command_env: dict[str, str], tmp_path: Path
) -> None:
    script, models, out = tmp_path / "deadly.py", tmp_path / "models.yaml", tmp_path / "out"
    script.write_text(DEADLY)
    models.write_text("single: {engine: scripted, replicas: {max: 1}}\n")
    command = ["predict", "--models", "single", "--benchmarks", "maia", "--tasks", "vsv", "--json"]
    common_flags = [
        "--models-file",
        str(models),
        "--sample-id",
        "video1/Sentiment_A",
        "--sample-id",
        "video2/Sentiment_A",
    ]
    common_flags += ["--settings", "1-frame", "--data", maia_data, "--out", str(out)]
    result = subprocess.run(
        [sys.executable, str(script), *command, *common_flags],
        env=command_env,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 1, result.stderr
    expected = ["request_id", "sample_id", "status", "error_type"]
    (part,) = parts(out)
    rows = pq.ParquetFile(part).read(expected).to_pylist()
    assert len(rows) == len({row["request_id"] for row in rows}) == json.loads(result.stdout)["requests"]
    failed = [row for row in rows if row["status"] == "error"]
    assert {row["sample_id"].split("/")[0] for row in failed} == {"video1"}
    assert {row["error_type"] for row in failed} == {"media"}
    assert {row["sample_id"].split("/")[0] for row in rows if row["status"] == "ok"} == {"video2"}
