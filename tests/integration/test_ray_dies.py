"""An embedded Ray whose processes are killed ends the run with a message, and the same command resumes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from tests.chaos.sweeps import parts
from tests.integration.conftest import Cli
from tests.support.ray_head import ray_head

ANSWERED = "slow: {engine: scripted}\n"


@pytest.fixture
def run_arguments(maia_data: str, tmp_path: Path) -> list[str]:
    models, out = tmp_path / "models.yaml", tmp_path / "out"
    models.write_text("slow: {engine: scripted, fault_injection: {call_s: 0.2}}\n")
    flags = ("--models", "slow", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv")
    return ["predict", *flags, "--data", maia_data, "--out", str(out)]


def start_run(arguments: list[str], out: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a run and wait for its first commit."""
    with (out.parent / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "jobs.cli", *arguments], env=env, stdout=log, stderr=log)
    deadline = time.monotonic() + 400
    while not parts(out):
        assert process.poll() is None, (out.parent / "log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return process


def named(pid: int, program: str) -> psutil.Process:
    (item,) = [child for child in psutil.Process(pid).children(recursive=True) if child.name() == program]
    return item


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "name"), [("raylet", "raylet"), pytest.param("gcs_server", "head", marks=pytest.mark.full)]
)
def test_run_reports_its_killed_embedded_ray_and_resumes(
    program: str, name: str, cli: Cli, command_env: dict[str, str], run_arguments: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = start_run(run_arguments, out, command_env)
    below = psutil.Process(process.pid).children(recursive=True)
    named(process.pid, program).kill()
    assert process.wait(60) == 3
    text = (tmp_path / "log").read_text()
    assert f"Ray's {name} was ended by SIGKILL" in text
    assert "Traceback" not in text
    _, alive = psutil.wait_procs(below, 60)
    assert not alive
    assert not list(Path("/tmp").glob(f"vlmsweep-*/*/owner-{process.pid}-*.json"))
    committed = {path: path.read_bytes() for path in parts(out)}
    (tmp_path / "models.yaml").write_text(ANSWERED)
    cli(*run_arguments)
    assert all(path.read_bytes() == content for path, content in committed.items())
    rows = [row for part in parts(out) for row in pq.ParquetFile(part).read(["request_id", "status"]).to_pylist()]
    assert len(rows) == len({row["request_id"] for row in rows})
    assert {row["status"] for row in rows} == {"ok"}


@pytest.mark.full
def test_run_reports_the_killed_head_of_its_cluster(run_arguments: list[str], tmp_path: Path) -> None:
    with ray_head("--num-cpus=2") as head:
        process = start_run([*run_arguments, "--address", f"127.0.0.1:{head.gcs}"], tmp_path / "out", head.env)
        named(head.processes[0].pid, "gcs_server").kill()
        assert process.wait(240) == 3
    text = (tmp_path / "log").read_text()
    assert "the cluster's head stays unreachable. Run the same command again" in text
    assert "Traceback" not in text


START = """
import sys
import ray._private.services as services
from jobs.cli.main import main
services.RAYLET_EXECUTABLE = "/bin/false"
main(sys.argv[1:])
"""


@pytest.mark.full
def test_raylet_that_ends_as_it_starts_is_reported(
    command_env: dict[str, str], run_arguments: list[str], tmp_path: Path
) -> None:
    """As under a limit of memory; the second start gets no longer limit."""
    command = [sys.executable, "-c", START, *run_arguments]
    result = subprocess.run(command, env=command_env, capture_output=True, text=True, timeout=400, check=False)
    assert result.returncode == 3, result.stderr
    assert "a local Ray cannot be used: its raylet ended as it started; run again when" in result.stderr
    assert not parts(tmp_path / "out")


START_AGAIN = """
import sys
from pathlib import Path
import ray._private.services as services
from jobs.cli.main import main
raylet, mark = Path(sys.argv[1]), Path(sys.argv[2])
raylet.write_text(
    f'#!/bin/sh\\nif [ -e {mark} ]; then exec {services.RAYLET_EXECUTABLE} "$@"; fi\\ntouch {mark}; kill -ABRT $$\\n'
)
raylet.chmod(0o755)
services.RAYLET_EXECUTABLE = str(raylet)
main(sys.argv[3:])
"""


@pytest.mark.full
def test_raylet_that_waited_for_its_agents_in_vain_is_started_again(
    command_env: dict[str, str], run_arguments: list[str], tmp_path: Path
) -> None:
    (tmp_path / "models.yaml").write_text(ANSWERED)
    raylet, mark = tmp_path / "raylet", tmp_path / "mark"
    command = [sys.executable, "-c", START_AGAIN, str(raylet), str(mark), *run_arguments]
    result = subprocess.run(command, env=command_env, capture_output=True, text=True, timeout=400, check=False)
    assert result.returncode == 0, result.stderr
    assert mark.exists()
    assert parts(tmp_path / "out")


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
