"""One run at a time writes an output in an object store, by conditional writes and heartbeats."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import FencedError, LockedError
from pipelines.storage.lock import LOCK, check_lock, run_lock
from pipelines.storage.store import Store
from tests.conftest import REAL_MAIA
from tests.integration.conftest import S3, Cli
from tests.support.checkpoints import build_tiny

HOLD = """
import sys, time
from pipelines.storage.lock import run_lock
from pipelines.storage.store import Store
with run_lock(Store(sys.argv[1]), heartbeat_s=0.3) as run:
    print(run, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def out(s3: S3, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Store:
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    return Store(f"s3://bench/lock/{request.node.name}")


def holder(out: Store) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, out.uri], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def elsewhere(out: Store) -> None:
    """Let the lock look as if another machine had taken it."""
    content, version = out.get_version(LOCK)
    while not out.put_if(LOCK, json.dumps({**json.loads(content), "host": "another"}).encode(), version):
        content, version = out.get_version(LOCK)  # a beat that was on its way when its sender was killed


def test_live_remote_lock_owner_is_detected_by_its_heartbeat(out: Store) -> None:
    process, run = holder(out)
    try:
        with pytest.raises(LockedError, match=f"run {run[:8]}"), run_lock(out, stale_after_s=40):
            pytest.fail("two hold it")
        check_lock(out, run)
    finally:
        process.kill()
        process.communicate()


def test_lock_of_a_dead_local_process_is_taken_over_at_once(out: Store) -> None:
    process, dead = holder(out)
    process.kill()
    process.communicate()
    with run_lock(out, stale_after_s=3600) as run:
        check_lock(out, run)
        with pytest.raises(FencedError):
            check_lock(out, dead)
    assert not out.exists(LOCK)


def two_at_once(out: Store, *, stale_after_s: float) -> list[str]:
    """Start two contenders; the winner holds the lock until the other is refused; return both outcomes."""
    ends: list[str] = []
    refused = threading.Event()

    def try_it() -> None:
        try:
            with run_lock(Store(out.uri), stale_after_s=stale_after_s, heartbeat_s=0.2):
                ends.append("held")
                refused.wait(120)
        except LockedError:
            ends.append("refused")
            refused.set()

    threads = [threading.Thread(target=try_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(ends)


def test_silent_remote_lock_owner_is_replaced_by_one_contender(out: Store) -> None:
    process, _ = holder(out)
    process.kill()
    process.communicate()
    elsewhere(out)
    assert two_at_once(out, stale_after_s=4.0) == ["held", "refused"]


def be_replaced(out: Store, run: str) -> None:
    """Let another run take the lock, and wait until this one notices."""
    content, version = out.get_version(LOCK)
    while not out.put_if(LOCK, json.dumps({**json.loads(content), "run": "f" * 32}).encode(), version):
        content, version = out.get_version(LOCK)
    with pytest.raises(FencedError, match="locked by run ffffffff"):
        check_lock(out, run)
    threading.Event().wait(60)


def test_replaced_lock_owner_stops_and_keeps_the_new_lock(out: Store) -> None:
    with pytest.raises(LockedError, match="taken over by another run"), run_lock(out, heartbeat_s=0.5) as run:
        be_replaced(out, run)
    assert json.loads(out.get(LOCK))["run"] == "f" * 32


def heedless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the store write whatever the condition."""

    def put_if(store: Store, path: str, content: bytes, version: str | None) -> str:
        store.put(path, content)
        return store.get_version(path)[1]

    monkeypatch.setattr(Store, "put_if", put_if)


def test_live_lock_owner_is_detected_without_conditional_writes(
    out: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    heedless(monkeypatch)
    monkeypatch.setattr("pipelines.storage.lock.SETTLE_S", 0.1)
    with run_lock(out, heartbeat_s=0.2) as run:
        assert "ignores conditions" in caplog.text
        elsewhere(out)
        with pytest.raises(LockedError, match=f"run {run[:8]}"), run_lock(out, stale_after_s=5):
            pytest.fail("two hold it")
        check_lock(out, run)
    assert not out.exists(LOCK)


def test_one_of_two_simultaneous_runs_gets_the_lock_without_conditional_writes(
    out: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    heedless(monkeypatch)
    monkeypatch.setattr("pipelines.storage.lock.SETTLE_S", 3.0)
    both = threading.Barrier(2)

    def together(store: Store, *arguments: Any) -> tuple[bytes, str]:
        """Run a call only when both contenders have read."""
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(20)
        both.abort()
        return whole(store, *arguments)

    whole = Store.get_version
    monkeypatch.setattr(Store, "get_version", together)

    assert two_at_once(out, stale_after_s=5.0) == ["held", "refused"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen2.5-VL of random weights."""
    return build_tiny(tmp_path_factory.mktemp("tiny"), "qwen2_5_vl")


@pytest.fixture(scope="session")
def clips(request: pytest.FixtureRequest) -> tuple[Path, int]:
    """The published clips where this machine has them, else small generated ones; and their number."""
    if REAL_MAIA.is_dir():
        return REAL_MAIA, 2  # of the five that there are: enough to be killed in the middle of
    return request.getfixturevalue("maia_source"), 2


def keys(s3: S3, prefix: str) -> list[str]:
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix=prefix)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def read(s3: S3, key: str) -> bytes:
    return s3.client().get_object(Bucket="bench", Key=key)["Body"].read()


def predictions(s3: S3, out: str) -> pa.Table:
    parts = [key for key in keys(s3, f"{out}/predictions/") if key.endswith(".parquet")]
    return pa.concat_tables([pq.ParquetFile(io.BytesIO(read(s3, key))).read() for key in parts])


def wait_for_parts(s3: S3, out: str, count: int, process: subprocess.Popen[bytes], seconds: float = 480) -> None:
    deadline = time.monotonic() + seconds
    while len(keys(s3, f"{out}/predictions/")) < count:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline, "no part was committed in time"
        time.sleep(0.2)


def sweep_killed_once(
    s3: S3, cli: Cli, env: dict[str, str], source: Path, tiny: Path, tmp_path: Path, videos: int
) -> dict:
    """Ingest into the store, kill the first run after two parts, run the same command again."""
    models = tmp_path / "models.yaml"
    models.write_text(
        f"tiny: {{engine: transformers, model: {tiny}, dtype: float32, device: cpu, limits: {{max_pixels: 3072}}, "
        "generation: {max_new_tokens: 4}}\ncoin: {engine: random}\n"
    )
    data, out = "s3://bench/resume/data", "resume/out"
    cli("ingest", "maia", str(source), "--data", data, env=s3.env)
    flags = ("--models", "tiny", "--models-file", str(models), "--judge", "coin", "--benchmarks", "maia")
    flags = (*flags, "--limit", str(24 * videos))
    command = ("run", *flags, "--data", data, "--out", f"s3://bench/{out}")
    (plan,) = json.loads(cli(*command, "--dry-run", "--json", env=s3.env).stdout)["plan"]
    with (tmp_path / "first.log").open("wb") as log:
        first = subprocess.Popen(
            [sys.executable, "-m", "jobs.cli", *command], env={**env, **s3.env}, stdout=log, stderr=log
        )
        wait_for_parts(s3, out, 2, first)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    committed = {key: read(s3, key) for key in keys(s3, f"{out}/predictions/")}
    before = predictions(s3, out).num_rows
    result = cli(*command, env=s3.env)
    return {"plan": plan, "out": out, "kept": committed, "before": before, "stdout": result.stdout}


def check(s3: S3, run: dict, videos: int) -> None:
    table = predictions(s3, run["out"])
    ids = Counter(table["request_id"].to_pylist())
    assert set(ids.values()) == {1}
    assert table.num_rows == len(ids) == run["plan"]["requests"] == 648 * videos
    assert 0 < run["before"] < table.num_rows
    assert set(table["status"].to_pylist()) == {"ok"}
    cells = Counter(zip(table["task"].to_pylist(), table["setting"].to_pylist(), strict=True))
    for setting in ("black-video", "1-frame", "32-frames"):
        assert cells["vsv", setting] == 192 * videos
        assert cells["oevqa", setting] == 24 * videos
    assert run["plan"]["media_groups"] == 2 * videos + 1
    for key, content in run["kept"].items():
        assert read(s3, key) == content, "what was committed was computed again"
    rows = json.loads(read(s3, f"{run['out']}/report/metrics.json"))
    (row,) = [r for r in rows if (r["metric"], r["setting"], r["category"]) == ("agg_acc", "32-frames", "")]
    assert row["n"] == 24 * videos
    assert b"<html" in read(s3, f"{run['out']}/report/index.html")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_run_on_s3_resumes(
    s3: S3, cli: Cli, command_env: dict[str, str], clips: tuple[Path, int], tiny: Path, tmp_path: Path
) -> None:
    source, videos = clips
    run = sweep_killed_once(s3, cli, command_env, source, tiny, tmp_path, videos)
    check(s3, run, videos)
