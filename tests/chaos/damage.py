"""Damaged rows through every ingest, commits cut at each step, damaged media: `python -m tests.chaos.damage`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.messages import Media
from pipelines.benchmarks import benchmark_names
from pipelines.errors import DecodeError
from pipelines.media.decoder import Decoder
from pipelines.storage.lock import LOCK
from pipelines.storage.parts import iter_parts
from pipelines.storage.store import Store
from tests.chaos.commits import S3_STEPS, STEPS, cut_commit, cut_commit_on_s3, part, unit
from tests.chaos.media import corpus, write
from tests.chaos.table import RESULTS, read_results, write_results
from tests.integration.conftest import s3_server
from tests.support.mutated_sources import ingest_damaged

__all__ = ["Outcomes", "decode_all"]

FAILING = 0.05
LIMIT_S = 60.0


@dataclass(slots=True)
class Outcomes:
    """The outcomes of decoding the corpus of damaged media."""

    counts: Counter[str] = field(default_factory=Counter)
    """By `decodes`, `refused` and unexpected outcomes."""
    wrong: list[str] = field(default_factory=list)
    """Names of files with another outcome than expected."""
    longest_s: float = 0.0
    most_bytes: int = 0
    """Peak of the decoder's process."""


def decode_all(folder: Path) -> Outcomes:
    """Decode each file of the corpus as a sweep would."""
    outcomes = Outcomes()
    with Decoder(timeout_s=LIMIT_S) as decoder:
        for specimen in corpus():
            path = write(folder, specimen)
            started = time.monotonic()
            try:
                frames = decoder.decode_file(path, Media(specimen.kind, "", 4 if specimen.kind == "video" else 0), 4096)
            except DecodeError as error:
                outcome = "refused" if len(str(error)) > 10 else "refused without a reason"
            else:
                whole = str(frames.pixels.dtype) == "uint8" and frames.pixels.shape[3] == 3
                outcome = "decodes" if whole and frames.pixels[0].size <= 3 * 4096 else "decodes to something else"
            outcomes.counts[outcome] += 1
            if outcome not in (("decodes", "refused") if specimen.outcome == "either" else (specimen.outcome,)):
                outcomes.wrong.append(f"{specimen.name}: {outcome}")
            outcomes.longest_s = max(outcomes.longest_s, time.monotonic() - started)
            if decoder._child is not None:
                outcomes.most_bytes = max(outcomes.most_bytes, _peak(decoder._child.pid))
            path.unlink()
    return outcomes


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def _readable_part(store: Store) -> str:
    """Return which part a reader gets: `old`, `new`, or `neither` of them complete."""
    tables = [table for _, table in iter_parts(store, "predictions")]
    outputs = {word for table in tables for word in table["output"].to_pylist()}
    return outputs.pop() if len(tables) == len(outputs) == 1 and tables[0].num_rows == 50 else "neither"


def _cut_on_disk(rounds: int) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for _ in range(rounds):
        for step in STEPS:
            for when in ("before", "after"):
                with tempfile.TemporaryDirectory(prefix="vlmsweep-cut-") as folder:
                    store = Store(folder)
                    store.put("predictions/37a680133bd09342f934afb8.parquet", part("old"))
                    code = cut_commit(Path(folder), step, when)
                    counts[_readable_part(store) if code == 9 else "not cut"] += 1
                    store.remove_temporary()
                    counts["left"] += sum(path.is_file() for path in Path(folder).rglob("*")) - 1
    return dict(counts)


def _cut_on_store(rounds: int) -> dict[str, int]:
    """Cut commits to a server that fails a share of all requests, the reader's too."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="vlmsweep-cut-") as folder, s3_server(Path(folder, "log"), FAILING) as s3:
        os.environ.update(s3.env)
        store = Store("s3://bench/cut")
        for _ in range(rounds):
            for step in S3_STEPS:
                for when in ("before", "after"):
                    store.put(LOCK, b'{"run": "me", "host": "h", "pid": 1, "process_start": "s", "since": "t"}')
                    store.put(unit().part, part("old"))
                    code = cut_commit_on_s3(store.uri, "part", step, when, {**s3.env, "HOME": folder})
                    counts[_readable_part(store) if code == 9 else "not cut"] += 1
                    counts["left"] += len(store.list()) - 2
    return dict(counts)


def main() -> int:
    """Damage rows, commits and media; return 0 when readers always got a complete part or a reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000, help="of each benchmark")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = read_results(options.results)
    for name in benchmark_names():
        with tempfile.TemporaryDirectory(prefix="vlmsweep-rows-") as folder:  # an exception in it is a finding
            rows, rejected = ingest_damaged(name, Path(folder), options.rows)
        results["rows"][name] = {"rows": rows, "rejected": rejected, "used": rows - rejected}
        sys.stdout.write(f"{name}: {rejected:,} of {rows:,} damaged rows rejected\n")
    results["cuts"] = {"disk": _cut_on_disk(options.rounds), "store": _cut_on_store(options.rounds)}
    with tempfile.TemporaryDirectory(prefix="vlmsweep-media-") as folder:
        outcomes = decode_all(Path(folder))
    results["media"] = {
        "files": outcomes.counts.total(),
        **outcomes.counts,
        "wrong": len(outcomes.wrong),
        "longest_s": round(outcomes.longest_s, 1),
        "most_mb": outcomes.most_bytes >> 20,
    }
    write_results(results, options.results)
    sys.stdout.write(f"cuts: {results['cuts']}\nmedia: {results['media']} {outcomes.wrong}\n")
    harmed = outcomes.wrong or any(cut.get(bad) for cut in results["cuts"].values() for bad in ("neither", "not cut"))
    return 1 if harmed else 0


if __name__ == "__main__":
    sys.exit(main())
