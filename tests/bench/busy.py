"""The engine's busy share in steady state, on real clips: decoding and resizing go on while it computes.

    python -m tests.bench.busy --runs 5

The published clips are used where this machine has them, else the demo's. The model is a small one with random weights;
a larger one leaves more time for decoding and is busier.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from models.entry_fields import Limits
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.bench.jobs import busy_shares, run_units
from tests.bench.results import record, show, spread
from tests.conftest import REAL_MAIA
from tests.support.checkpoints import build_tiny
from tests.support.paths import ROOT


def main() -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", default="tiny", choices=("tiny", "small"))
    parser.add_argument("--pixels", type=int, default=50_176)
    args = parser.parse_args()
    source = REAL_MAIA if REAL_MAIA.is_dir() else ROOT / "jobs" / "demo" / "data" / "maia"
    shares, seconds, units = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        ingest_benchmark(benchmark("maia"), Folder(str(source)), Store(f"{folder}/data"))
        checkpoint = build_tiny(Path(folder, "model"), "qwen2_5_vl", size=args.size)
        model = ModelSpec(
            engine="transformers", model=str(checkpoint), dtype="float32", device="cpu",
            limits=Limits(max_pixels=args.pixels),
        )  # fmt: skip
        for turn in range(args.runs):
            receipts = run_units(Path(folder, "data"), Path(folder, f"out{turn}"), model, ("1-frame", "32-frames"))
            shares.append(next(iter(busy_shares(receipts).values())))
            seconds.append(sum(receipt.ended - receipt.began for receipt in receipts))
            units = len(receipts)
            print(f"run {turn + 1}: {units} units, {seconds[-1]:.1f} s, busy {shares[-1]:.1%}", flush=True)
    result = {"units": units, "busy_share": spread(shares), "engine_seconds": spread(seconds), "size": args.size}
    record("busy", {**result, "clips": str(source.name)})
    busy_share = result["busy_share"]
    show("engine in steady state", ["units", "busy share", "spread"], [
        [units, busy_share["median"], f"{busy_share['low']:.3f}-{busy_share['high']:.3f}"],
    ])  # fmt: skip


if __name__ == "__main__":
    main()
