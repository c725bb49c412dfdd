"""An embedded Ray whose own processes are killed ends the run at once and in words, and the same command goes on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from tests.chaos.sweeps import parts
from tests.integration.conftest import Cli


@pytest.mark.slow
@pytest.mark.parametrize(("program", "name"), [("raylet", "raylet"), ("gcs_server", "head")])
def test_a_run_whose_ray_is_killed_says_so_and_goes_on(
    program: str, name: str, cli: Cli, command_env: dict[str, str], maia_data: str, tmp_path: Path
) -> None:
    models, out, short = tmp_path / "models.yaml", tmp_path / "out", Path("/tmp")
    models.write_text("slow: {engine: random, faults: {call_s: 0.2}}\n")
    flags = ("--models", "slow", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv")
    place = ("--data", maia_data, "--out", str(out))
    command = [sys.executable, "-m", "jobs.cli", "predict", *flags, *place]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, env=command_env, stdout=log, stderr=log)
    deadline = time.monotonic() + 400
    while not parts(out):
        assert process.poll() is None, (tmp_path / "log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    below = psutil.Process(process.pid).children(recursive=True)
    (victim,) = [one for one in below if one.name() == program]
    victim.kill()
    assert process.wait(60) == 3
    said = (tmp_path / "log").read_text()
    assert f"Ray's {name} has ended by SIGKILL" in said
    assert "Traceback" not in said
    _, alive = psutil.wait_procs(below, 60)
    assert not alive
    assert not list(short.glob(f"vlmsweep-{process.pid}-*"))
    kept = {path: path.read_bytes() for path in parts(out)}
    models.write_text("slow: {engine: random}\n")
    cli("predict", *flags, *place)
    assert all(path.read_bytes() == content for path, content in kept.items())
    rows = [row for part in parts(out) for row in pq.ParquetFile(part).read(["request_id", "status"]).to_pylist()]
    assert len(rows) == len({row["request_id"] for row in rows})
    assert {row["status"] for row in rows} == {"ok"}
