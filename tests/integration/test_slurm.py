"""The batch script under Debian's Slurm, on two nodes of this machine, with the product's commands in a short form."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.slurm import slurm, why_not

pytestmark = [pytest.mark.full, pytest.mark.skipif(bool(why_not()), reason=why_not() or "Slurm is there")]

RAY = """case "$1" in
status) printf ' 1 node_%s\\n' $(ls "$PWD"/node-*.here 2> /dev/null | sed 's/.*/x/') ;;
health-check) ls "$PWD"/node-*.here > /dev/null 2>&1 ;;
start) touch "node-$SLURMD_NODENAME.here"; trap 'rm -f "node-$SLURMD_NODENAME.here"; exit 0' TERM; sleep 300 & wait ;;
esac"""
# Commits a row; the first time it then waits until it is stopped, the second time it finds the row and ends.
SWEEP = """trap 'exit 130' TERM
ls node-*.here | wc -l >> nodes
if [ -e committed ]; then echo resumed >> log; exit 0; fi
touch committed; echo started >> log; sleep 300 & wait"""


def wait_for(file: Path, text: str, env: dict[str, str]) -> None:
    deadline = time.monotonic() + 90
    while not file.exists() or text not in file.read_text():
        if time.monotonic() > deadline:
            queue = subprocess.run(["squeue"], env=env, capture_output=True, text=True, check=False).stdout
            texts = [path.read_text() for path in (*file.parent.glob("*.out"), *file.parent.glob("ray-*.log"))]
            raise AssertionError((queue, *texts))
        time.sleep(0.2)


def test_a_job_on_two_nodes_that_gets_the_signal_is_queued_again_and_resumes(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "bin").mkdir(parents=True)
    for name, script in {"ray": RAY, "vlmsweep": SWEEP}.items():
        (work / "bin" / name).write_text(f"#!/bin/bash\n{script}\n")
        (work / "bin" / name).chmod(0o755)
    with slurm(tmp_path) as cluster:
        env = {**cluster, "PATH": f"{work}/bin:{cluster['PATH']}", "VLMSWEEP_SCRATCH": str(tmp_path / "scratch")}
        command = ["sbatch", "--parsable", "--nodes=2", str(ROOT / "infra" / "slurm" / "sweep.sbatch"), "run"]
        job = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=True).stdout.strip()
        wait_for(work / "log", "started", env)
        subprocess.run(["scancel", "--batch", "--signal=USR1", job], env=env, check=True)
        wait_for(work / f"slurm-{job}.out", "queued again", env)
        deadline = time.monotonic() + 90
        now = ["scontrol", "update", f"JobId={job}", "StartTime=now+5"]  # Slurm itself waits two minutes
        while subprocess.run(now, env=env, capture_output=True, check=False).returncode:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        wait_for(work / "log", "resumed", env)
        while (
            "COMPLETED"
            not in subprocess.run(
                ["scontrol", "show", "job", job], env=env, capture_output=True, text=True, check=True
            ).stdout
        ):
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert (work / "nodes").read_text().split() == ["2", "2"]
    assert not list(work.glob(".vlmsweep-*.token"))
    assert not list((tmp_path / "scratch").glob("*"))
