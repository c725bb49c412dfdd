"""A submitted job runs on the Python of the Ray agent above it, and else on the PATH's."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

BRIEF = "import os, sys; print(os.environ['NAME'], *sys.argv[1:])"


def python(folder: Path, name: str) -> Path:
    """Write an interpreter that prints its name and its arguments."""
    path = folder / name / "python"
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\nNAME={name} exec {sys.executable} -c "{BRIEF}" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("agent_command", "runs"), [("{ray} -c pass --x", "rays"), ("{folder}/gone -c pass", "path"), ("", "path")]
)
def test_start_script_prefers_the_python_of_the_ray_agent(tmp_path: Path, agent_command: str, runs: str) -> None:
    rays, on_path = python(tmp_path, "rays"), python(tmp_path, "path")
    (tmp_path / "start.sh").write_text((files("jobs.submit") / "start.sh").read_text())
    agent = ["sh", "-c", "sh -c \"sh start.sh --models 'a b'; exit $?\"; exit $?", "raylet"]
    if agent_command:
        agent.append(f"--python_worker_command={agent_command.format(ray=rays, folder=tmp_path)}")
    env = {"PATH": f"{on_path.parent}:/usr/bin:/bin"}
    result = subprocess.run(agent, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert result.stdout.strip() == f"{runs} -m jobs.sweep --models a b", result.stderr
