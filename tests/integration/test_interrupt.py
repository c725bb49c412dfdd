"""Ctrl-C, a closed terminal and a spot warning: exit 130, committed rows stay, no process is left, and resumption."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.storage.lock import LOCK
from tests.chaos.processes import REPLICA, descendants, named, wait_until_gone
from tests.chaos.sweeps import parts
from tests.integration.conftest import Cli
from tests.support.checkpoints import build_tiny
from tests.support.turns import in_turns

END_S = 30.0
"""Within which a signal ends a run and all of its processes, as README.md says."""


def open_memory() -> set[int]:
    """Return the inodes of shared-memory files in use: semaphores are mapped under other names."""
    results = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            lines = (process / "maps").read_text().splitlines()
            results.update(int(line.split()[4]) for line in lines if "/dev/shm/" in line)
        with contextlib.suppress(OSError):
            results.update(
                path.stat().st_ino for path in (process / "fd").iterdir() if "/dev/shm/" in str(path.readlink())
            )
    return results


def abandoned_memory(before: set[Path]) -> set[Path]:
    """Return shared-memory files newer than `before` that no process holds."""
    results = set()
    new = set(Path("/dev/shm").iterdir()) - before
    mapped_inodes = open_memory() if new else set()
    for path in new:
        with contextlib.suppress(FileNotFoundError):  # another test's, deleted meanwhile
            if path.stat().st_ino not in mapped_inodes:
                results.add(path)
    return results


@pytest.fixture
def short_temp() -> Iterator[Path]:
    """A folder for temporary files whose name is short enough for Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="vsi-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(
    "signal_number",
    in_turns((signal.SIGINT, signal.SIGHUP, signal.SIGTERM), (signal.SIGTERM,)),
)
def test_signal_ends_the_run_and_the_same_command_resumes(
    cli: Cli,
    command_env: dict[str, str],
    maia_data: str,
    tmp_path: Path,
    short_temp: Path,
    signal_number: signal.Signals,
) -> None:
    memory = set(Path("/dev/shm").iterdir())
    models = tmp_path / "models.yaml"
    models.write_text("slow: {engine: scripted, fault_injection: {stall_s: 2.0}}\n")
    flags = ("--models", "slow", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv")
    common_flags = ("--data", maia_data, "--out", str(tmp_path / "out"))
    command = [sys.executable, "-m", "jobs.cli", "predict", *flags, *common_flags]
    env = {**command_env, "TMPDIR": str(short_temp)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=env, start_new_session=True, **pipes)
    deadline = time.monotonic() + 400
    while not parts(tmp_path / "out"):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    below = descendants(process.pid)
    assert list(short_temp.iterdir()), "temporary files would be seen"
    started = time.monotonic()
    # A terminal that is closed tells all processes of its group.
    (os.killpg if signal_number == signal.SIGHUP else os.kill)(process.pid, signal_number)
    _, output = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "Run the same command again to resume" in output
    assert "Traceback" not in output
    deadline = started + END_S
    while alive := {pid for pid in below if Path("/proc", str(pid)).exists()}:
        assert time.monotonic() < deadline, [Path("/proc", str(pid), "cmdline").read_text() for pid in alive]
        time.sleep(0.2)
    assert time.monotonic() - started < END_S
    assert not list(short_temp.glob("*/*"))  # the user's own empty folder stays
    deadline = time.monotonic() + 30
    while abandoned := abandoned_memory(memory):  # another test's may be between its end and its removal
        assert time.monotonic() < deadline, abandoned
        time.sleep(0.5)
    assert not [path for path in (tmp_path / "out").rglob("*") if path.suffix == ".tmp" or path.name == LOCK]
    committed = {path: path.read_bytes() for path in parts(tmp_path / "out")}
    assert committed
    models.write_text("slow: {engine: scripted}\n")
    cli("predict", *flags, *common_flags)
    table = pa.concat_tables([pq.ParquetFile(path).read() for path in parts(tmp_path / "out")])
    assert set(Counter(table["request_id"].to_pylist()).values()) == {1}
    assert table.num_rows == 3 * 384
    assert all(path.read_bytes() == content for path, content in committed.items())


@pytest.mark.slow
@pytest.mark.parametrize("tells_group", [False, True], ids=["process", "group"])
@pytest.mark.parametrize("is_loading", [False, True], ids=["Ray starts", "loading"])
def test_signal_while_a_local_model_starts_ends_with_130_and_without_a_native_trace(
    command_env: dict[str, str], maia_data: str, tmp_path: Path, short_temp: Path, is_loading: bool, tells_group: bool
) -> None:
    """Ray's native handler would abort the process after three seconds, which the end of its processes may take."""
    models = tmp_path / "models.yaml"
    models.write_text(f"tiny: {{engine: transformers, model: {build_tiny(tmp_path / 'tiny')}, device: cpu}}\n")
    flags = ("--models", "tiny", "--models-file", str(models), "--benchmarks", "maia", "--limit", "8")
    command = [sys.executable, "-m", "jobs.cli", "predict", *flags, "--data", maia_data, "--out", str(tmp_path / "out")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    env = {**command_env, "TMPDIR": str(short_temp)}
    process = subprocess.Popen(command, env=env, start_new_session=True, **pipes)
    deadline = time.monotonic() + 200
    while not named(process.pid, REPLICA if is_loading else "raylet"):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1.0)  # it imports the libraries of models
    below, started = descendants(process.pid), time.monotonic()
    (os.killpg if tells_group else os.kill)(process.pid, signal.SIGTERM)
    _, output = process.communicate(timeout=60)
    assert (process.returncode, output.splitlines()[-1]) == (
        130,
        "vlmsweep: Interrupted. Run the same command again to resume.",
    )
    assert "***" not in output
    wait_until_gone(below, END_S - (time.monotonic() - started))
