"""Real processes: the command line, an S3 server, endpoints. Loopback only."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


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
    """moto as a process of its own, so that Ray's workers reach it over TCP; bucket `bench` is there."""
    with s3_server(tmp_path_factory.mktemp("moto") / "log") as server:
        yield server


@contextlib.contextmanager
def s3_server(log: Path, failing: float = 0.0, mood: Path | None = None) -> Iterator[S3]:
    """An S3 server for the length of a block; a share of its answers may fail, or all in the mood of a file."""
    port = free_port()
    env = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": "test-secret-never-shown",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    command = [Path(sys.executable).with_name("moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    if failing:
        command = [sys.executable, "-m", "tests.support.flaky_s3", str(port), str(failing), "1"]
    if mood:
        command = [sys.executable, "-m", "tests.support.moody_s3", str(port), str(mood)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 60
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < deadline, log.read_text()
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        store = S3(env["AWS_ENDPOINT_URL"], env, process.pid)
        store.client().create_bucket(Bucket="bench")
        yield store
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def command_env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user who has set nothing, with a home of its own and no hub."""
    home = tmp_path_factory.mktemp("home")
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "HOME": str(home), "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="session")
def cli(command_env: dict[str, str]) -> Cli:
    """Run `vlmsweep ...` as a process; `env` adds variables, `code` is the exit code to expect, `cwd` is where."""

    def run(
        *arguments: str,
        env: dict[str, str] | None = None,
        code: int = 0,
        timeout: float = 240,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "jobs.cli", *arguments],
            env={**command_env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd,
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run
