"""Requests of a sweep to an object store, and the cost of a slow one: SeaweedFS behind a proxy, without and with delay.

    python -m tests.bench.store --requests 10000 --delay-ms 20 --runs 3

Runs with and without the delay take turns, each with an empty output. Data and output are in the store; a scripted
model sleeps `--call-ms` a call, as an engine would. Requests are counted by kind in the runs without delay, whose
predictions are also scored and reported.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.many import write_many
from tests.bench.results import record, show, spread
from tests.support.seaweed import BUCKET, Seaweed, seaweed, unavailable_reason

PER_GROUP = 20
REPLICAS = 2
COMMANDS = ("predict", "score", "report")


@contextmanager
def proxy(server: Seaweed, delay_s: float, counts: Path) -> Iterator[str]:
    """Yield the address of a proxy before the server."""
    command = [sys.executable, "-m", "tests.support.store_proxy", server.url, str(delay_s), str(counts)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def upload(server: Seaweed, folder: Path, prefix: str) -> None:
    """Copy a folder into the bucket."""
    client = server.client()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            key = f"{prefix}/{path.relative_to(folder)}"
            client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())


def run_stages(env: Mapping[str, str], models: Path, out: str, counts: Path, commands: Sequence[str]) -> dict[str, Any]:
    """Run commands of `COMMANDS`; return seconds and the requests to the store of each."""
    flags = ("--models", "m", "--models-file", str(models), "--benchmarks", "maia", "--settings", "1-frame")
    result: dict[str, Any] = {}
    for command in commands:
        before = read_counts(counts)
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "jobs.cli", command, *flags, "--data", f"s3://{BUCKET}/data", "--out", out],
            env={**os.environ, **env},
            check=True,
            capture_output=True,
        )
        seconds = time.perf_counter() - start
        result[command] = {"seconds": seconds, "requests": dict(read_counts(counts) - before)}
    return result


def read_counts(file: Path) -> Counter[str]:
    """Return how many requests of each kind have passed a proxy."""
    return Counter(json.loads(file.read_text()) if file.exists() else {})


def main() -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--delay-ms", type=float, default=20.0)
    parser.add_argument("--call-ms", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    if reason := unavailable_reason():
        print(f"skipped: {reason}")
        return
    delays = (0.0, args.delay_ms / 1000)
    runs: dict[float, list[dict[str, Any]]] = {delay: [] for delay in delays}
    with tempfile.TemporaryDirectory() as name, seaweed(Path(name, "store")) as server:
        folder = Path(name)
        rows = write_many(folder / "data", max(1, args.requests // PER_GROUP), args.requests)
        upload(server, folder / "data", "data")
        models = folder / "models.yaml"
        spec = {"engine": "scripted", "replicas": {"max": REPLICAS}, "fault_injection": {"call_s": args.call_ms / 1000}}
        models.write_text(json.dumps({"m": spec}))
        for turn in range(args.runs):
            for delay in delays:
                counts = folder / f"counts-{turn}-{delay}"
                with proxy(server, delay, counts) as url:
                    env = {**server.env, "AWS_ENDPOINT_URL": url}
                    commands = COMMANDS if turn == delay == 0 else COMMANDS[:1]
                    run = run_stages(env, models, f"s3://{BUCKET}/out-{turn}-{delay}", counts, commands)
                runs[delay].append(run)
                print(f"run {turn + 1}, {1000 * delay:g} ms: {run}", flush=True)
    publish(rows, delays, runs)


def publish(rows: int, delays: tuple[float, ...], runs: Mapping[float, list[dict[str, Any]]]) -> None:
    """Print the tables and record the result."""
    seconds = {delay: spread([run["predict"]["seconds"] for run in subset]) for delay, subset in runs.items()}
    plain, delayed = (seconds[delay]["all"] for delay in delays)
    ratio = spread([slow / fast for fast, slow in zip(plain, delayed, strict=True)])
    requests = {command: runs[delays[0]][0][command]["requests"] for command in COMMANDS}
    record("store", {"rows": rows, "seconds": seconds, "requests": requests, "predict_ratio": ratio})
    show(
        f"predicting {rows:,} rows, with the delay {ratio['median']:.3f} times as long (pairs of runs: {ratio['all']})",
        ["delay ms", "seconds", "lowest", "highest"],
        [[1000 * delay, *(seconds[delay][name] for name in ("median", "low", "high"))] for delay in delays],
    )
    kinds = sorted({kind for counts in requests.values() for kind in counts})
    show(
        "requests to the store per 1,000 rows",
        ["stage", *kinds, "all"],
        [
            [command, *(1000 * counts.get(kind, 0) / rows for kind in kinds), 1000 * sum(counts.values()) / rows]
            for command, counts in requests.items()
        ],
    )


if __name__ == "__main__":
    main()
