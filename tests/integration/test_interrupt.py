"""Ctrl-C and a spot warning: exit 130, what was committed stays, nothing is left running, the same command goes on."""

from __future__ import annotations

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

from tests.integration.conftest import Cli


def parts(out: Path) -> list[Path]:
    return sorted(out.glob("predictions/*/*/*.parquet"))


def descendants(pid: int) -> set[int]:
    """Processes below one, by /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, open_ = set(), [pid]
    while open_:
        own = children.get(open_.pop(), [])
        found.update(own)
        open_ += own
    return found


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed(
    cli: Cli, command_env: dict[str, str], maia_data: str, tmp_path: Path, signal_number: signal.Signals
) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("slow: {engine: random, faults: {stall_s: 2.0}}\n")
    flags = ("--models", "slow", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv")
    place = ("--data", maia_data, "--out", str(tmp_path / "out"))
    command = [sys.executable, "-m", "jobs.cli", "predict", *flags, *place]
    process = subprocess.Popen(command, env=command_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not parts(tmp_path / "out"):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    below = descendants(process.pid)
    os.kill(process.pid, signal_number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "the same command goes on" in said
    assert "Traceback" not in said
    deadline = time.monotonic() + 30
    while alive := {pid for pid in below if Path("/proc", str(pid)).exists()}:
        assert time.monotonic() < deadline, [Path("/proc", str(pid), "cmdline").read_text() for pid in alive]
        time.sleep(0.2)
    assert not list(Path("/tmp").glob(f"vlmsweep-{process.pid}-*"))
    kept = {path: path.read_bytes() for path in parts(tmp_path / "out")}
    assert kept
    models.write_text("slow: {engine: random}\n")
    cli("predict", *flags, *place)
    table = pa.concat_tables([pq.ParquetFile(path).read() for path in parts(tmp_path / "out")])
    assert set(Counter(table["request_id"].to_pylist()).values()) == {1}
    assert table.num_rows == 3 * 384
    assert all(path.read_bytes() == content for path, content in kept.items())
