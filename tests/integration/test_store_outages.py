"""A full disk, a stalled or missing store, refused credentials: reported, and a second run resumes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipelines.storage.lock import LOCK
from tests.chaos.processes import ending
from tests.integration.conftest import S3, Cli, s3_server
from tests.support.seaweed import seaweed, unavailable_reason

REQUESTS = 144


@pytest.fixture
def flags(tmp_path: Path, maia_data: str) -> tuple[str, ...]:
    models = tmp_path / "models.yaml"
    models.write_text("slow: {engine: scripted, fault_injection: {call_s: 0.1}, replicas: {max: 1}}\n")
    selection = ("--models", "slow", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv")
    return (*selection, "--settings", "1-frame,black-video,32-frames", "--limit", "6", "--data", maia_data)


def whole(parts: list[bytes], requests: int = REQUESTS) -> None:
    rows = [
        row for part in parts for row in pq.ParquetFile(io.BytesIO(part)).read(["request_id", "status"]).to_pylist()
    ]
    assert set(Counter(row["request_id"] for row in rows).values()) == {1}
    assert Counter(row["status"] for row in rows) == {"ok": requests}


def parts_of(s3: S3) -> list[bytes]:
    client = s3.client()
    return [client.get_object(Bucket="bench", Key=key)["Body"].read() for key in committed(client)]


def committed(client: Any) -> list[str]:
    """List committed parts with one client: a new one for every poll would slow the run down."""
    listed = client.list_objects_v2(Bucket="bench", Prefix="out/predictions/").get("Contents", [])
    return [item["Key"] for item in listed]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small disk")
def test_full_disk_is_reported_with_exit_code_3(cli: Cli, flags: tuple[str, ...], tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("cannot mount a small disk here")
    try:
        (disk / "other").write_bytes(bytes(490 << 10))
        result = cli("run", *flags, "--out", str(disk / "out"), code=3)
        assert "the disk is full" in result.stderr
        assert "Traceback" not in result.stderr
        assert not list(disk.rglob("*.tmp"))
        (disk / "other").unlink()
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        cli("run", *flags, "--out", str(disk / "out"))
        whole([path.read_bytes() for path in disk.glob("out/predictions/*/*/*.parquet")])
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@contextmanager
def running(env: dict[str, str], flags: tuple[str, ...], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "jobs.cli", "run", *flags, "--out", "s3://bench/out"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out)
    with ending(process):
        yield process


def until(true: Callable[[], object], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 400
    while not true():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def test_bucket_that_may_only_be_read_is_refused_before_any_work(
    cli: Cli, flags: tuple[str, ...], tmp_path: Path
) -> None:
    mode, answers = tmp_path / "mood", tmp_path / "answers.jsonl"
    answers.write_text('{"benchmark": "maia"}\n')
    commands = [("run", *flags), ("report", *flags), ("score", "--predictions", str(answers), *flags[-2:])]
    with s3_server(tmp_path / "moto", mode=mode) as s3:
        mode.write_text("AccessDenied")
        for command in commands:
            refused = cli(*command, "--out", "s3://bench/out", env=s3.env, code=3)
            assert refused.stderr.splitlines()[-1] == (
                "vlmsweep: s3://bench/out: no permission (scripted); grant this user the right to read and write there"
            )
        assert not s3.client().list_objects_v2(Bucket="bench").get("Contents")


@pytest.mark.full
@pytest.mark.skipif(bool(unavailable_reason()), reason=unavailable_reason())
def test_stalled_store_is_retried_and_lost_store_is_reported(
    command_env: dict[str, str], flags: tuple[str, ...], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with seaweed(tmp_path / "seaweed") as server:
        s3 = S3(server.url, server.env)
        client = s3.client()
        with running({**command_env, **s3.env}, flags, log) as process:
            until(lambda: committed(client), process, log)
            assert server.process
            os.kill(server.process.pid, signal.SIGSTOP)
            time.sleep(20)
            os.kill(server.process.pid, signal.SIGCONT)
            assert process.wait(400) == 0, log.read_text()
        whole(parts_of(s3))
        again = (*flags, "--seed", "7")
        with running({**command_env, **s3.env}, again, log) as process:
            done = len(committed(client))
            until(lambda: len(committed(client)) > done, process, log)
            server.kill()
            assert process.wait(500) == 3, log.read_text()
        assert "cannot be reached" in log.read_text()
        assert "Traceback" not in log.read_text()
        server.start()
        with running({**command_env, **s3.env}, again, log) as process:
            assert process.wait(400) == 0, log.read_text()
        whole(parts_of(s3), REQUESTS + REQUESTS // 2)  # half of the pairs have the same order under both seeds


FAILING = 0.05


def contents(s3: S3, prefix: str) -> dict[str, bytes]:
    client = s3.client()
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix=prefix)
    keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
    return {key.removeprefix(prefix): client.get_object(Bucket="bench", Key=key)["Body"].read() for key in keys}


def rows(files: dict[str, bytes]) -> list[tuple[str, str, str]]:
    results = []
    for name, content in files.items():
        if name.startswith("/predictions/"):
            table = pq.ParquetFile(io.BytesIO(content)).read(["request_id", "status", "output"])
            results += [tuple(row.values()) for row in table.to_pylist()]
    return sorted(results)


@pytest.mark.slow
def test_sweep_on_a_failing_store_gives_the_same_rows(cli: Cli, maia_data: str, tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("chance: {engine: random}\n")
    flags = ("--models", "chance", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "oevqa")
    cli("run", *flags, "--data", maia_data, "--out", str(tmp_path / "calm"))
    with s3_server(tmp_path / "log", FAILING) as s3:
        for path in Path(maia_data).rglob("*"):
            if path.is_file():
                key = f"data/{path.relative_to(maia_data).as_posix()}"
                s3.client().put_object(Bucket="bench", Key=key, Body=path.read_bytes())
        cli("run", *flags, "--data", "s3://bench/data", "--out", "s3://bench/out", env=s3.env)
        remaining = contents(s3, "out")
    calm = {f"/{p.relative_to(tmp_path / 'calm')}": p.read_bytes() for p in (tmp_path / "calm").rglob("*.*")}
    assert rows(remaining) == rows(calm)
    assert set(Counter(row[0] for row in rows(remaining)).values()) == {1}
    assert json.loads(remaining["/report/metrics.json"]) == json.loads(calm["/report/metrics.json"])
    assert f"/{LOCK}" not in remaining
    failures = (tmp_path / "log").read_text().count('" 50')
    assert failures > 5, "the store did not fail"
