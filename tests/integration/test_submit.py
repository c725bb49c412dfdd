"""`vlmsweep submit` against a real head with dashboard and token: refused, followed, detached, stopped, resumed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.env_encryption import decrypt_env
from cluster.ray_private import forget_token
from jobs.cli.main import run
from tests.chaos.sweeps import parts
from tests.support.ray_head import RayHead, ray_head

NAME = "VLMSWEEP_TEST_MARK"


@pytest.fixture(scope="module")
def head() -> Iterator[RayHead]:
    # No Python of this project's on its PATH: a job must run on Ray's own all the same.
    with ray_head("--num-cpus=2", env={"PATH": "/usr/bin:/bin"}) as item:
        yield item


@pytest.fixture
def shell(head: RayHead, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayHead]:
    """Give this process the cluster's token, as on a user's laptop."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "HOME"):
        monkeypatch.setenv(name, head.env[name])
    forget_token()
    yield head
    monkeypatch.undo()  # with what the test set: undone apart, one would restore what the other had set
    forget_token()


def wait_for(condition, seconds: float = 400) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_job_is_left_stopped_and_resumed(
    shell: RayHead,
    maia_data: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(NAME, "seen-by-the-job")
    models, out = tmp_path / "models.yaml", tmp_path / "out"
    models.write_text("slow: {engine: scripted, fault_injection: {stall_s: 20.0}}\n")
    flags = ["submit", "--models", "slow", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv"]
    flags += ["--settings", "black-video,1-frame", "--data", maia_data, "--out", str(out), "--address", shell.url]
    flags += ["--env", NAME]
    # Started and left alone.
    assert run([*flags, "--no-follow", "--json"]) == 0
    payload = json.loads(capfd.readouterr().out)
    assert payload["submitted"]
    # The same command follows it; Ctrl-C ends the following and not the job.
    follower = subprocess.Popen(
        [sys.executable, "-m", "jobs.cli", *flags], env={**shell.env, NAME: "x"}, stderr=subprocess.PIPE, text=True
    )
    assert follower.stderr
    assert any("nothing new was sent" in line for line in follower.stderr)
    wait_for(lambda: parts(out))
    follower.send_signal(signal.SIGINT)
    output = follower.communicate(timeout=240)[1]
    assert follower.returncode == 130, output
    assert "continues" in output
    from cluster.job_client import JobClient

    api = JobClient(shell.url)
    assert api.attempts(payload["submission_id"]) == [(payload["submission_id"], "RUNNING")]
    # --stop ends it, and what is committed stays.
    assert run([*flags, "--stop"]) == 0
    assert "committed rows stay" in capfd.readouterr().out
    retained = {path: path.read_bytes() for path in parts(out)}
    assert retained
    # The same command goes on.
    models.write_text("slow: {engine: scripted}\n")
    assert run([*flags, "--json"]) == 0
    end = json.loads(capfd.readouterr().out)
    assert end == {
        "submission_id": payload["submission_id"] + "-2",
        "submitted": True,
        "status": "SUCCEEDED",
        "exit_code": 0,
    }
    ids = Counter(pa.concat_tables([pq.ParquetFile(path).read() for path in parts(out)])["request_id"].to_pylist())
    assert set(ids.values()) == {1}
    assert len(ids) == 2 * 384
    assert all(path.read_bytes() == content for path, content in retained.items())
    # What the job was given: the named variable, sealed, and nothing else of this shell.
    assert set(env_vars := api._info(payload["submission_id"]).runtime_env["env_vars"]) == {"VLMSWEEP_SEALED"}
    assert decrypt_env(env_vars["VLMSWEEP_SEALED"]) == {NAME: "seen-by-the-job"}


@pytest.mark.full
def test_job_without_capacity_is_cancelled(
    shell: RayHead, maia_data: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = ["submit", "--models", "random", "--benchmarks", "maia", "--data", maia_data, "--out", str(tmp_path)]
    common_flags = ["--address", shell.url, "--submission-id", "too-big", "--entrypoint-num-cpus", "640"]
    assert run([*flags, *common_flags, "--pending-timeout", "2"]) == 3
    assert re.search("too-big did not start within 2 s and will be stopped", capfd.readouterr().err)


@pytest.mark.slow
def test_submit_returns_the_drivers_exit_code_and_uses_a_job_name_once(
    shell: RayHead, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = ["submit", "--models", "random", "--benchmarks", "maia", "--data", str(tmp_path / "none")]
    common_flags = ["--out", str(tmp_path / "out"), "--address", shell.url, "--submission-id", "night-1"]
    assert run([*flags, *common_flags]) == 2
    assert "vlmsweep ingest maia" in capfd.readouterr().err
    from cluster.job_client import JobClient, JobRequest

    def order(name: str) -> JobRequest:
        return JobRequest(entrypoint="true", folder=tmp_path, env={}, submission_id=name, once=True)

    api = JobClient(shell.url)
    assert api.submit(order("night-1")) == ("night-1-2", True)
    assert api.follow("night-1-2", pending_s=240, write=lambda _: None).status == "SUCCEEDED"
    assert api.submit(order("night-1")) == ("night-1-2", False)


@pytest.mark.slow
def test_wrong_token_is_refused(
    shell: RayHead, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("0" * 64)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(wrong))
    forget_token()
    common_flags = ["--data", "/data", "--out", "/out", "--address", shell.url]
    assert run(["submit", "--models", "random", "--benchmarks", "maia", *common_flags]) == 3
    assert "does not accept the token" in capfd.readouterr().err
