"""The sweep that is disturbed: its undisturbed result, and what is lost, doubled or changed by a disturbance."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq

from tests.support.maia_source import write_source
from tests.support.paths import ENGINES_PATH
from tests.support.seaweed import BUCKET, Seaweed

__all__ = ["Damage", "Scene", "environment", "in_hand", "make_scene", "parts", "read_answers", "read_rows", "sweep"]

_COMMAND = (sys.executable, "-m", "jobs.cli")
CALL_S = 0.02
REPLICAS = 2
Answers = dict[str, tuple[str, str]]
"""Status and output by request id."""


@dataclass(slots=True)
class Damage:
    """The outcome of one disturbed sweep."""

    planned: int
    kills: int
    lost: int
    doubled: int
    changed: int
    metrics_equal: bool
    redone: int
    """Repeated calls; where calls cannot be counted, the most that was in flight."""
    in_flight: int
    """Calls begun and not committed, summed over the kills."""
    counted: bool = True
    """Whether calls could be counted."""
    left_over: list[str] = field(default_factory=list)

    @property
    def harmless(self) -> bool:
        """Whether no row was lost, doubled or changed, and no committed call was repeated."""
        broken = self.lost or self.doubled or self.changed or self.left_over or self.redone > self.in_flight
        return not broken and self.metrics_equal


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """Data, a slow scripted model, and the undisturbed result."""

    folder: Path
    data: str
    seconds: float
    """Duration of the undisturbed run."""
    answers: Answers
    metrics: str
    server: Seaweed | None = None
    """The store of data and outputs; without one they lie in `folder`. Outputs are copied to `folder` to be read."""

    @property
    def calls_s(self) -> float:
        """Seconds of the engines alone."""
        return len(self.answers) * CALL_S / REPLICAS

    def start(self, out: Path, *more: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start the sweep; its output goes to a log file beside `out`."""
        models = out.with_suffix(".yaml")
        models.write_text(_model(journal=out.with_suffix(".journal")))
        flags = ("--models", "slow", "--models-file", str(models), "--benchmarks", "maia")
        return sweep(self, out, *flags, *more, env={**self.env, **(env or {})})

    @property
    def env(self) -> dict[str, str]:
        """Environment of the sweeps."""
        return {**environment(self.folder), **(self.server.env if self.server else {})}

    def uri(self, name: str) -> str:
        """Return where an output or the data is."""
        return f"s3://{BUCKET}/{name}" if self.server else str(self.folder / name)

    def read_answers(self, out: Path) -> Answers:
        """Read status and output of the rows committed so far, by request id."""
        self._fetch(out)
        return read_answers(out)

    def _fetch(self, out: Path) -> None:
        """Copy an output from the store to its folder, without what was there."""
        if self.server is None:
            return
        shutil.rmtree(out, ignore_errors=True)
        client = self.server.client()
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{out.name}/"):
            for item in page.get("Contents", []):
                path = out.parent / item["Key"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(client.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read())

    def finish(self, out: Path, *more: str) -> None:
        """Run the sweep to its end."""
        self.ended(self.start(out, *more), out)

    def ended(self, process: subprocess.Popen[bytes], out: Path, timeout: float = 600) -> None:
        """Wait for the end of a sweep and assert that it succeeded."""
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        assert code == 0, self.log_tail(out)

    def log_tail(self, out: Path) -> str:
        """Return the last 3,000 characters of a sweep's log."""
        return out.with_suffix(".log").read_text()[-3000:]

    def damage(
        self,
        out: Path,
        kills: int,
        *,
        in_flight: int,
        answers: Answers | None = None,
        metrics: str = "",
        journal: bool = True,
    ) -> Damage:
        """Compare an output with the undisturbed one: the scene's own, or `answers` and `metrics`."""
        self._fetch(out)
        expected, metrics = answers or self.answers, metrics or self.metrics
        counts = Counter(row["request_id"] for row in read_rows(out))
        results = read_answers(out)
        calls = Counter(out.with_suffix(".journal").read_text().split()) if journal else Counter()
        return Damage(
            planned=len(expected),
            kills=kills,
            lost=len(expected.keys() - results.keys()),
            doubled=sum(n - 1 for n in counts.values()) + len(results.keys() - expected.keys()),
            changed=sum(results[result] != expected[result] for result in results.keys() & expected.keys()),
            metrics_equal=(out / "report" / "metrics.json").read_text() == metrics,
            redone=sum(calls.values()) - len(calls) if journal else in_flight,
            in_flight=in_flight,
            counted=journal,
            left_over=[str(path.relative_to(out)) for path in out.rglob("*") if path.name.endswith(".tmp")],
        )


def in_hand(out: Path, committed: Collection[str]) -> int:
    """Count calls that have begun and were not yet committed."""
    journal = out.with_suffix(".journal")
    calls = set(journal.read_text().split()) if journal.exists() else set()
    return sum(call.rpartition("/")[0] not in committed for call in calls)


_COLUMNS = ["request_id", "status", "output"]


def parts(out: Path, stage: str = "predictions") -> list[Path]:
    """List the committed parts."""
    return sorted(out.glob(f"{stage}/*/*/*.parquet"))


def read_rows(out: Path) -> list[dict[str, str]]:
    """Read request id, status and output of all rows, of a judge's too."""
    paths = [*parts(out), *parts(out, "judgements")]
    return [row for path in paths for row in pq.ParquetFile(path).read(_COLUMNS).to_pylist()]


def read_answers(out: Path) -> Answers:
    """Read status and output by request id."""
    return {row["request_id"]: (row["status"], row["output"]) for row in read_rows(out)}


def sweep(
    scene: Scene, out: Path, *flags: str, env: dict[str, str], command: Sequence[str] = _COMMAND
) -> subprocess.Popen[bytes]:
    """Start `vlmsweep run` over the scene's data; its output goes to a log file beside `out`."""
    arguments = [*command, "run", "--data", scene.data, "--out", scene.uri(out.name), *flags]
    with out.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(arguments, env=env, stdout=log, stderr=log)


def environment(folder: Path) -> dict[str, str]:
    """Return a fresh user's environment."""
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    return {**inherited, "HOME": str(folder), "HF_HUB_OFFLINE": "1", "PYTHONPATH": ENGINES_PATH}


def make_scene(folder: Path, *, videos: int = 3, categories: int = 4, server: Seaweed | None = None) -> Scene:
    """Ingest a small MAIA, into a store if one is given, and run it undisturbed; 216 requests a video."""
    empty = Scene(folder, "", 0.0, {}, "", server)
    empty = replace(empty, data=empty.uri("data"))
    source = write_source(folder / "source", videos=videos, categories=categories)
    ingest = [sys.executable, "-m", "jobs.cli", "ingest", "maia", str(source), "--data", empty.data]
    subprocess.run(ingest, env=empty.env, check=True, capture_output=True)
    out = folder / "undisturbed"
    started = time.monotonic()
    empty.finish(out)
    seconds = time.monotonic() - started
    answers = empty.read_answers(out)
    assert len(answers) == len(read_rows(out)) == videos * categories * 2 * 9 * 3
    metrics = (out / "report" / "metrics.json").read_text()
    assert json.loads(metrics)
    return replace(empty, seconds=seconds, answers=answers, metrics=metrics)


def _model(journal: Path) -> str:
    faults = {"call_s": CALL_S, "journal": str(journal)}
    spec = {"engine": "scripted", "replicas": {"max": REPLICAS}, "fault_injection": faults}
    return json.dumps({"slow": spec})  # YAML reads JSON
