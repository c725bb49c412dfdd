"""Tensor-parallel replicas in the real pipeline: the same predictions, and a killed rank that costs nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from models.tiny import build_tiny
from tests.integration.conftest import Cli


def predictions(out: Path, model: str) -> dict[str, dict[str, object]]:
    """Rows by what was asked; a row that is there twice is an error."""
    parts = sorted(out.glob(f"predictions/benchmark=maia/model={model}/*.parquet"))
    rows = pa.concat_tables([pq.ParquetFile(part).read() for part in parts]).to_pylist() if parts else []
    assert len({row["request_id"] for row in rows}) == len(rows)
    return {f"{row['task']} {row['setting']} {row['sample_id']} {row['variant']}": row for row in rows}


def ranks_under(root: int) -> list[int]:
    """Processes that replicas of a run have started as ranks."""
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
                lines[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            parents[int(folder.name)] = int(re.split(r"\) . ", stat)[-1].split()[0])

    def beneath(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    return [
        pid
        for pid, line in lines.items()
        if "spawn_main" in line and "Replica" in lines.get(parents.get(pid, 0), "") and beneath(pid)
    ]


def test_a_rank_is_killed_and_nothing_is_lost(
    cli: Cli, command_env: dict[str, str], maia_data: str, tmp_path: Path
) -> None:
    folder = build_tiny(tmp_path / "checkpoint")
    models = tmp_path / "models.yaml"
    common = f"engine: transformers, model: {folder}, device: cpu, dtype: float32, generation: {{max_new_tokens: 3}}"
    models.write_text(f"whole: {{{common}}}\nhalves: {{{common}, tensor_parallel: 2, replicas: {{max: 2}}}}\n")
    flags = ("--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv", "--settings", "1-frame,32-frames")
    flags = (*flags, "--limit", "24", "--data", maia_data)
    out = tmp_path / "out"
    cli("predict", "--models", "whole", *flags, "--out", str(out), timeout=280)
    argv = [sys.executable, "-m", "jobs.cli", "predict", "--models", "halves", *flags, "--out", str(out)]
    run = subprocess.Popen(argv, env=command_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        ranks: list[int] = []
        while len(ranks) < 4 and run.poll() is None:
            time.sleep(0.1)
            ranks = ranks_under(run.pid)
        assert len(ranks) == 4, "two replicas of two ranks"
        while not predictions(out, "halves") and run.poll() is None:
            time.sleep(0.05)
        assert run.poll() is None, "the run was over before a rank could be killed"
        victim = ranks_under(run.pid)[-1]
        os.kill(victim, signal.SIGKILL)
        _, said = run.communicate(timeout=280)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 0, said
    whole, halves = predictions(out, "whole"), predictions(out, "halves")
    assert set(halves) == set(whole)
    assert {row["status"] for row in halves.values()} == {"ok"}
    assert {key for key, row in halves.items() if row["output"] != whole[key]["output"]} == set()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in ranks) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks), "no rank outlives its run"


def test_a_replica_that_cannot_be_placed_says_what_it_lacks(cli: Cli, maia_data: str, tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("wide: {engine: transformers, model: anywhere/at-all, device: cuda, tensor_parallel: 4}\n")
    flags = ("--models-file", str(models), "--benchmarks", "maia", "--data", maia_data, "--out", str(tmp_path / "out"))
    started = time.monotonic()
    done = cli("run", "--models", "wide", *flags, code=3)
    assert time.monotonic() - started < 60
    assert "a replica needs 4 GPUs and 1 CPU on one node, and no node has 4 GPUs (nodes: 0 GPUs and" in done.stderr
