"""Real processes: the command line, an S3 server, endpoints. Loopback only."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobs.cli.main import run as run_command
from jobs.shared.options import normalize_arguments
from tests.chaos.processes import ending
from tests.support.paths import ENGINES_PATH
from tests.support.seaweed import seaweed, unavailable_reason

Cli = Callable[..., subprocess.CompletedProcess[str]]
TOO_BUSY = "run again when this machine is less busy"
"""What a run says where Ray did not start within its half a minute; nothing was begun."""


@pytest.fixture
def closed_port() -> Iterator[str]:
    """`host:port` where connections are refused: bound and not listening, so that no other process listens there."""
    with socket.socket() as unserved:
        unserved.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{unserved.getsockname()[1]}"


@dataclass(frozen=True)
class S3:
    """An S3 server of this test run."""

    url: str
    env: dict[str, str]
    pid: int = 0

    def client(self):
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=self.env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.env["AWS_SECRET_ACCESS_KEY"],
            region_name=self.env["AWS_DEFAULT_REGION"],
        )


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """SeaweedFS with the bucket `bench`; moto where this machine has no SeaweedFS."""
    if unavailable_reason():
        with s3_server(tmp_path_factory.mktemp("moto") / "log") as server:
            yield server
    else:
        with seaweed(tmp_path_factory.mktemp("seaweed")) as weed:
            yield S3(weed.url, weed.env)


@contextlib.contextmanager
def s3_server(log: Path, failing: float = 0.0, mode: Path | None = None) -> Iterator[S3]:
    """Yield moto as a process of its own; a share of its responses may fail, or all while a file says so."""
    # The server is handed a socket that listens: a port that is only picked here may be another's before it is bound.
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    env = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{listening.getsockname()[1]}",
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": "test-secret-never-shown",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    descriptor = str(listening.fileno())
    module = (
        ["tests.support.moody_s3", descriptor, str(mode)]
        if mode
        else ["tests.support.flaky_s3", descriptor, str(failing), "1"]
    )
    with log.open("wb") as out, listening:
        command = [sys.executable, "-m", *module]
        process = subprocess.Popen(command, stdout=out, stderr=out, pass_fds=(listening.fileno(),))
    with ending(process):
        store = S3(env["AWS_ENDPOINT_URL"], env, process.pid)
        store.client().create_bucket(Bucket="bench")  # waits for a server that is still starting
        yield store


@pytest.fixture(scope="session")
def command_env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A fresh user's environment, with an empty home and without the hub."""
    home = tmp_path_factory.mktemp("home")
    names = ("PATH", "LD_LIBRARY_PATH", "OMP_WAIT_POLICY", "TZ", "LC_ALL", "PYTHONHASHSEED")
    inherited = {name: os.environ[name] for name in names if name in os.environ}
    return {**inherited, "HOME": str(home), "HF_HUB_OFFLINE": "1", "PYTHONPATH": ENGINES_PATH}


@pytest.fixture(scope="session")
def cli(command_env: dict[str, str]) -> Cli:
    """Run `vlmsweep ...` as a process; `env` adds variables, `code` is the exit code to expect, `cwd` is where."""

    def run(
        *arguments: str,
        env: dict[str, str] | None = None,
        code: int = 0,
        timeout: float = 840,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        for _ in range(3):
            result = subprocess.run(
                [sys.executable, "-m", "jobs.cli", *arguments],
                env={**command_env, **(env or {})},
                capture_output=True,
                text=True,
                timeout=timeout,
                cwd=cwd,
            )
            if result.returncode != 3 or TOO_BUSY not in result.stderr:
                break
        assert result.returncode == code, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
        assert "Traceback" not in result.stderr, result.stderr
        return result

    return run


@pytest.fixture(scope="session")
def inline_cli() -> Cli:
    """Run `vlmsweep ...` in this process, where no process of its own is what is tested: its start takes seconds."""

    def run(*arguments: str, env: dict[str, str] | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(io.StringIO()) as stdout,
            contextlib.redirect_stderr(io.StringIO()) as stderr,
        ):
            patch.setattr(logging.getLogger(), "handlers", [])  # else pytest's, and log lines miss standard error
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            returncode = run_command(normalize_arguments([*arguments]))
        result = subprocess.CompletedProcess(arguments, returncode, stdout.getvalue(), stderr.getvalue())
        assert returncode == code, f"exit {returncode}\n{result.stdout}\n{result.stderr}"
        assert "Traceback" not in result.stderr, result.stderr
        return result

    return run
