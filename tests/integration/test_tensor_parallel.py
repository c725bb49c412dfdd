"""Tensor-parallel replicas with an adapter in the real pipeline: equal predictions; a killed rank loses no row."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.processes import ending
from tests.integration.conftest import Cli
from tests.support.checkpoints import build_tiny
from tests.support.ranked import models_file, predictions, ranks_under, write_adapter


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft's
def test_killed_rank_loses_no_row(cli: Cli, command_env: dict[str, str], maia_data: str, tmp_path: Path) -> None:
    folder = build_tiny(tmp_path / "checkpoint")
    models = models_file(tmp_path / "models.yaml", folder, write_adapter(folder, tmp_path / "adapter"))
    flags = ("--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv", "--settings", "1-frame,32-frames")
    flags = (*flags, "--limit", "24", "--data", maia_data)
    out = tmp_path / "out"
    cli("predict", "--models", "whole", *flags, "--out", str(out))
    argv = [sys.executable, "-m", "jobs.cli", "predict", "--models", "halves", *flags, "--out", str(out)]
    run = subprocess.Popen(argv, env=command_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with ending(run):
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
        _, output = run.communicate(timeout=600)
    assert run.returncode == 0, output
    whole, halves = predictions(out, "whole"), predictions(out, "halves")
    assert set(halves) == set(whole)
    assert {row["status"] for row in halves.values()} == {"ok"}
    assert {key for key, row in halves.items() if row["output"] != whole[key]["output"]} == set()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in ranks) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks), "no rank outlives its run"


@pytest.mark.slow
def test_unplaceable_replica_reports_what_is_missing(cli: Cli, maia_data: str, tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("wide: {engine: transformers, model: anywhere/at-all, device: cuda, tensor_parallel: 4}\n")
    flags = ("--models-file", str(models), "--benchmarks", "maia", "--data", maia_data, "--out", str(tmp_path / "out"))
    started = time.monotonic()
    result = cli("run", "--models", "wide", *flags, code=3)
    assert time.monotonic() - started < 180
    assert "a replica needs 1 CPU and 4 GPUs on one node, and no node has 4 GPUs (nodes: " in result.stderr
    assert " and 0 GPUs) (tensor_parallel is the number of GPUs of one replica)" in result.stderr
