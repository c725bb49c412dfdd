"""JSON logs: lines of loaders and replicas, which are Ray processes, name their model and run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ray_head import ray_head


@pytest.mark.full
@pytest.mark.timeout(400)
def test_worker_log_lines_name_run_model_part_and_request(maia_data: str, tmp_path: Path) -> None:
    models, out = tmp_path / "models.yaml", tmp_path / "out"
    models.write_text("forgetful: {engine: scripted, fault_injection: {drop_every: 5}}\n")
    flags = ("--models", "forgetful", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv")
    common_flags = ("--settings", "1-frame", "--limit", "4", "--data", maia_data, "--out", str(out))
    with ray_head("--num-cpus=2") as head:
        command = [sys.executable, "-m", "jobs.cli", "predict", *flags, *common_flags, "--log-format", "json"]
        address = ("--address", f"127.0.0.1:{head.gcs}")
        result = subprocess.run([*command, *address], env=head.env, capture_output=True, text=True, timeout=300)
        assert result.returncode == 1, result.stderr
        files = [path.read_text() for path in head.folder.rglob("worker-*.err") if path.is_file()]
    lines = [json.loads(line) for text in files for line in text.splitlines() if line.startswith("{")]
    (run,) = {line["run"] for line in lines}
    assert run
    assert {line["model"] for line in lines} == {"forgetful"}
    parts = {str(path.relative_to(out)) for path in out.glob("predictions/*/*/*.parquet")}
    for word in ("loaded", "answered"):
        assert {line["part"] for line in lines if "part" in line and word in line["message"]} == parts
    failed = [line for line in lines if line["message"] == "a request failed: engine_contract"]
    assert failed
    assert all(line["request_id"] and line["part"] in parts for line in failed)
