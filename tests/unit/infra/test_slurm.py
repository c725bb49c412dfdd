"""The batch scripts for Slurm, with commands in the place of Slurm's, Ray's and the product's."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from pipelines.benchmarks import benchmark_names
from tests.support.paths import ROOT

FOLDER = ROOT / "infra" / "slurm"
SWEEP = FOLDER / "sweep.sbatch"
STUBS = {
    "scontrol": 'echo "scontrol $*" >> "$CALLS"\n[ "$1" != show ] || printf "node1\\nnode2\\nnode3\\n"',
    "scancel": 'echo "scancel $*" >> "$CALLS"\nkill -TERM $(cat "$CALLS.steps")',
    "srun": 'echo "srun $*" >> "$CALLS"\necho $$ >> "$CALLS.steps"\n'
    'while case "$1" in -*) true;; *) false;; esac; do shift; done\nexec "$@"',
    # The head's step is seen before it is healthy, and the workers' before the command starts.
    "ray": 'echo "ray $*" >> "$CALLS"\nsaw() { until grep -q "^ray start --$1" "$CALLS"; do sleep 0.02; done; }\n'
    'case "$1" in status) saw address; printf " 1 node_%s\\n" a b c;; '
    'health-check) saw head; exit "$HEALTH";; *) [ "$HEALTH" = 0 ] || exit 1; '
    'trap "kill \\$!; exit 1" TERM; sleep 20 & wait;; esac',
    "vlmsweep": 'trap "exit 130" TERM\nstat -c "token %a %s" "$RAY_AUTH_TOKEN_PATH" >> "$CALLS"\n'
    'printf "[%s]\\n" "$@" >> "$CALLS"\n[ -z "$WAIT" ] || { sleep "$WAIT" & wait; }\nexit "$CODE"',
}


class Job:
    """A job that Slurm would run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls_file = folder, folder / "calls"
        for name, script in STUBS.items():
            path = folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/bash\n{script}\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.scratch = folder / "scratch"
        self.env = {
            **os.environ,
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "CALLS": str(self.calls_file),
            "CODE": "0",
            "HEALTH": "0",
            "WAIT": "0.2",
            "SLURM_JOB_ID": "41234",
            "SLURM_JOB_NODELIST": "node[1-3]",
            "SLURM_CPUS_ON_NODE": "4",
            "VLMSWEEP_SCRATCH": str(self.scratch),
        }

    def start(
        self, *arguments: str, script: Path = SWEEP, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        command = ["bash", str(script), *arguments]
        every = {**self.env, **(env or {})}
        with (self.folder / "err").open("w") as err:
            return subprocess.Popen(command, cwd=self.folder, env=every, stderr=err)

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    @property
    def calls(self) -> str:
        return self.calls_file.read_text() if self.calls_file.exists() else ""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while text not in self.calls:
            assert time.monotonic() < deadline, self.calls
            time.sleep(0.05)

    def assert_clean(self) -> None:
        """Nothing that the job made on the way is left."""
        assert not list(self.folder.glob(".vlmsweep-*"))
        assert list(self.scratch.iterdir()) == []


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sbatch")), ids=lambda path: path.name)
def test_scripts_parse_and_requeue(path: Path) -> None:
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
    options = {line.removeprefix("#SBATCH ") for line in path.read_text().splitlines() if line.startswith("#SBATCH ")}
    assert {"--requeue", "--open-mode=append", "--signal=B:USR1@180", "--exclusive"} <= options


def test_head_workers_and_command_have_one_address(job: Job) -> None:
    hostile = "a b; touch hacked $(touch hacked)"
    process = job.start("run", "--out", hostile, env={"CODE": "1"})
    assert process.wait(60) == 1
    address = next(line for line in job.calls.splitlines() if line.startswith("ray health-check")).split()[-1]
    assert address.endswith(":21234")
    assert f"[run]\n[--out]\n[{hostile}]\n[--address]\n[{address}]\n" in job.calls
    assert "--nodes=1 --ntasks=1 --nodelist=node1 " in job.calls
    assert "--nodes=2 --ntasks=2 --ntasks-per-node=1 --exclude=node1 " in job.calls
    assert f"ray start --address={address} --num-cpus=4 --disable-usage-stats --block" in job.calls
    assert "ray start --head " in job.calls
    assert "token 600 64\n" in job.calls
    assert job.calls.endswith("scancel --signal=TERM 41234\n")
    assert "scontrol requeue" not in job.calls
    assert not (job.folder / "hacked").exists()
    job.assert_clean()


def test_before_the_time_limit_the_job_is_queued_again(job: Job) -> None:
    process = job.start("run", env={"WAIT": "60"})
    job.wait_for("[run]")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 130
    assert "scontrol requeue 41234\n" in job.calls
    job.assert_clean()


def test_requeues_end(job: Job) -> None:
    process = job.start("run", env={"WAIT": "60", "SLURM_RESTART_COUNT": "20"})
    job.wait_for("[run]")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 130
    assert "scontrol requeue" not in job.calls


def test_a_cancelled_job_stays_cancelled(job: Job) -> None:
    process = job.start("run", env={"WAIT": "60"})
    job.wait_for("[run]")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    assert "scontrol requeue" not in job.calls
    job.assert_clean()


def test_a_head_that_does_not_start_is_named(job: Job) -> None:
    assert job.start("run", env={"HEALTH": "1"}).wait(60) == 3
    assert "Ray did not start on node1; ray-41234.log says why" in job.err
    assert "[run]" not in job.calls
    job.assert_clean()


def test_without_a_command_it_is_refused(job: Job) -> None:
    assert job.start().wait(60) == 2
    assert "give a command of vlmsweep" in job.err


@pytest.mark.full
def test_nightly_is_an_array_of_all_benchmarks(job: Job) -> None:
    names = yaml.safe_load((ROOT / "infra" / "nightly.yaml").read_text())["benchmarks"]
    assert {*names} <= {*benchmark_names()}
    (job.folder / "infra").symlink_to(ROOT / "infra")
    script = FOLDER / "nightly.sbatch"
    assert f"#SBATCH --array=0-{len(names) - 1}\n" in script.read_text()
    runs = []
    for task in range(len(names)):
        job.calls_file.unlink(missing_ok=True)
        process = job.start("o", "h", "--limit", "3", script=script, env={"SLURM_ARRAY_TASK_ID": str(task)})
        assert process.wait(60) == 0
        words = [line[1:-1] for line in job.calls.splitlines() if line.startswith("[")]
        runs.append(words[words.index("--benchmarks") + 1])
        assert words[:3] == ["nightly", "--config", "infra/nightly.yaml"]
        assert {f"o/{runs[-1]}", f"h/{runs[-1]}"} <= {*words}
    assert sorted(runs) == sorted(names)


def test_apptainer_recipe_installs_what_the_dockerfile_does() -> None:
    recipe, dockerfile = (FOLDER / "vlmsweep.def").read_text(), (ROOT / "infra" / "docker" / "Dockerfile").read_text()
    assert recipe.partition("From: ")[2].split()[0] == dockerfile.partition("ARG PYTHON_IMAGE=")[2].split()[0]
    copied = [line.split()[0] for line in recipe.partition("%files\n")[2].partition("\n\n")[0].splitlines()]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    cuda = dockerfile.partition("AS build-cuda")[2].partition("\nFROM")[0]
    assert all(Path(name).name in cuda or name.startswith(("requirements", "infra")) for name in copied)
    script = recipe.partition("%post\n")[2].partition("\n%")[0]
    assert subprocess.run(["sh", "-n"], input=script.encode(), check=False).returncode == 0
    commands = {line.strip().removesuffix(" \\").removeprefix("RUN ").removeprefix("&& ") for line in cuda.splitlines()}
    shared = {line.strip() for line in script.splitlines()} & commands
    assert len(shared) == 4, shared


def test_apptainer_sections_run_in_a_shell() -> None:
    recipe = (FOLDER / "vlmsweep.def").read_text()
    environment, check, start = (
        recipe.partition(f"%{name}\n")[2].partition("\n%")[0] for name in ("environment", "test", "runscript")
    )
    env = {"PATH": f"{Path(sys.executable).parent}:{os.defpath}", "HOME": "/nonexistent"}
    for script, words in ((check, ["vlmsweep 0", "maia"]), (start, ["vlmsweep 0"])):
        command = ["sh", "-c", f"{environment}\n{script}", "sh", "--version"]
        output = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=True).stdout
        assert [word for word in words if word not in output] == []
