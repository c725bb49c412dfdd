"""A job's variables reach the driver and Ray's workers, each checked in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cluster.hardware import encrypt_env
from jobs.submit.decrypt_env import HOOK
from models.environment import ENCRYPTED_ENV

LOOK = f"from ray._common.utils import load_class; load_class({HOOK!r})(); import os; print(os.environ.get('MARK'))"


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("cluster.hardware.cluster_token", lambda: "t0ken")
    return encrypt_env({"MARK": "the value", "OTHER": "x"})


def looked(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    process_env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **env}
    return subprocess.run([sys.executable, *arguments], env=process_env, capture_output=True, text=True, timeout=120)


def test_worker_hook_decrypts_the_variables(sealed: str) -> None:
    result = looked("-c", LOOK, **{ENCRYPTED_ENV: sealed, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t0ken"})
    assert result.stdout == "the value\n", result.stderr


def test_process_without_encrypted_variables_does_nothing() -> None:
    assert looked("-c", LOOK).stdout == "None\n"


def test_driver_with_another_token_ends_with_2_and_a_reason(sealed: str) -> None:
    env = {ENCRYPTED_ENV: sealed, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "other"}
    result = looked("-m", "jobs.cli", "list", "benchmarks", **env)
    assert result.returncode == 2
    assert "encrypted with another token" in result.stderr
    assert "Traceback" not in result.stderr
