"""A table benchmark in an object store, killed and resumed, and submitted to a head: every request exactly once."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from cluster.ray_private import forget_token
from jobs.cli.main import run
from pipelines.storage.store import Store
from tests.integration.conftest import S3, Cli
from tests.support.ray_head import ray_head

PICTURES, QUESTIONS = 24, 10
REQUESTS = PICTURES * QUESTIONS


@pytest.fixture(scope="module")
def data(s3: S3, cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Pictures with ten questions each, four units of work, ingested into the object store as `mine`."""
    folder = tmp_path_factory.mktemp("questions")
    for number in range(PICTURES):
        Image.new("RGB", (600, 600), (10 * number, 80, 20)).save(folder / f"{number}.png")
    with (folder / "questions.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "image", "question", "A", "B", "answer"))
        for n in range(REQUESTS):
            rows.writerow((f"q{n}", f"{n // QUESTIONS}.png", f"Is {n} here?", "here", "elsewhere", "AB"[n % 2]))
    cli("ingest", "table", str(folder), "--as", "mine", "--data", "s3://bench/table", env=s3.env)
    return "s3://bench/table"


def parts(out: Store) -> dict[str, bytes]:
    return {info.path: out.get(info.path) for info in out.list("predictions", "*.parquet")}


def rows_of(contents: dict[str, bytes]) -> pa.Table:
    return pa.concat_tables([pq.ParquetFile(pa.BufferReader(content)).read() for content in contents.values()])


def check_exactly_once(out: Store) -> None:
    rows = rows_of(parts(out))
    assert set(Counter(rows["request_id"].to_pylist()).values()) == {1}
    assert Counter(rows["sample_id"].to_pylist()) == {f"q{n}": 1 for n in range(REQUESTS)}
    assert set(rows["status"].to_pylist()) == {"ok"}
    numbers = json.loads(out.get("report/metrics.json"))
    (accuracy,) = (row for row in numbers if (row["metric"], row["category"], row["subset"]) == ("accuracy", "", ""))
    assert accuracy["n"] == REQUESTS
    assert accuracy["ci_low"] < accuracy["value"] < accuracy["ci_high"]


@pytest.fixture
def store(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process read the object store."""
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_a_killed_sweep_asks_nothing_again(
    s3: S3, cli: Cli, command_env: dict[str, str], data: str, tmp_path: Path
) -> None:
    models, out = tmp_path / "models.yaml", Store("s3://bench/table-killed")
    models.write_text("slow: {engine: scripted, fault_injection: {stall_s: 3.0}, replicas: {max: 1}}\n")
    command = ("run", "--models", "slow", "--models-file", str(models), "--benchmarks", "mine")
    command = (*command, "--data", data, "--out", out.uri)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jobs.cli", *command], env={**command_env, **s3.env}, stdout=log, stderr=log
        )
        deadline = time.monotonic() + 240
        try:
            while not parts(out):
                assert process.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline, "no part was committed in time"
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
    committed = parts(out)
    assert rows_of(committed).num_rows < REQUESTS
    cli(*command, env=s3.env)
    check_exactly_once(out)
    assert {path: content for path, content in parts(out).items() if path in committed} == committed


@pytest.mark.full
@pytest.mark.usefixtures("store")
def test_a_table_in_an_object_store_is_submitted(
    s3: S3, data: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Store("s3://bench/table-submitted")
    with ray_head("--num-cpus=2", env={"PATH": "/usr/bin:/bin"}) as head:
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "HOME"):
            monkeypatch.setenv(name, head.env[name])
        forget_token()
        flags = ["submit", "--models", "random", "--benchmarks", "mine", "--data", data, "--out", out.uri]
        flags += [flag for name in s3.env for flag in ("--env", name)]
        assert run([*flags, "--address", head.url, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["status"] == "SUCCEEDED"
    check_exactly_once(out)
    monkeypatch.undo()
    forget_token()
