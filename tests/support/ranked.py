"""Two replicas of two ranks against one process, on real clips where this machine has them; one rank is killed.

`python -m tests.support.ranked --limit 24` prints the figures: rows, answers that differ and which of them are near
ties, bytes of weights in each rank, what a killed rank cost. Both models carry a LoRA adapter.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from models.engines import load_engine
from models.engines.tensor_parallel.engine import TensorParallelEngine
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.chaos.processes import ending
from tests.conftest import REAL_MAIA
from tests.support.checkpoints import build_tiny
from tests.support.maia_source import write_source

__all__ = ["models_file", "predictions", "ranks_under", "write_adapter"]

PAIR, WHOLE = "halves", "whole"


def write_adapter(checkpoint: Path, folder: Path) -> Path:
    """Write a LoRA adapter with random weights for layers split by columns and by rows."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForImageTextToText

    layers = ["q_proj", "v_proj", "o_proj", "down_proj"]
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_pretrained(checkpoint)
        get_peft_model(model, LoraConfig(r=4, target_modules=layers, init_lora_weights=False)).save_pretrained(folder)
    return folder


def models_file(path: Path, checkpoint: Path, adapter: Path) -> Path:
    """Write the models: `whole` in one process, `halves` as up to two replicas of two ranks each."""
    common = {
        "engine": "transformers",
        "model": str(checkpoint),
        "adapter": str(adapter),
        "device": "cpu",
        "dtype": "float32",
        "generation": {"max_new_tokens": 3},
        "limits": {"max_pixels": 50176},
    }
    pool = {"tensor_parallel": 2, "replicas": {"min": 0, "max": 2}}
    path.write_text(json.dumps({WHOLE: common, PAIR: {**common, **pool}}))
    return path


def predictions(out: Path, model: str) -> dict[str, dict[str, Any]]:
    """Read rows by request content; raise if a request has two rows."""
    parts = sorted(out.glob(f"predictions/benchmark=maia/model={model}/*.parquet"))
    rows = pa.concat_tables([pq.ParquetFile(part).read() for part in parts]).to_pylist() if parts else []
    if len({row["request_id"] for row in rows}) != len(rows):
        raise AssertionError(f"{model}: a request stands twice")
    return {f"{row['task']} {row['setting']} {row['sample_id']} {row['variant']}": row for row in rows}


def ranks_under(root: int) -> list[int]:
    """Return the rank processes that a run's replicas have started."""
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
                lines[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            parents[int(folder.name)] = int(re.split(r"\) . ", stat)[-1].split()[0])

    def beneath(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    return [
        pid
        for pid, line in lines.items()
        if "spawn_main" in line and "EngineActor" in lines.get(parents.get(pid, 0), "") and beneath(pid)
    ]


def disturbed(argv: list[str], out: Path) -> int:
    """Run the pair, kill one rank once something is committed; returns the exit code."""
    run = subprocess.Popen(argv)
    with ending(run):
        while not predictions(out, PAIR) and run.poll() is None:
            time.sleep(0.05)
        ranks = ranks_under(run.pid)
        print(f"ranks at the kill: {len(ranks)}", flush=True)
        if ranks and run.poll() is None:
            os.kill(ranks[-1], signal.SIGKILL)
        return run.wait(1800)


def shares(file: Path) -> tuple[int, ...]:
    """Return the bytes of weights in each rank."""
    engine = load_engine(PAIR, ModelSpec.model_validate(json.loads(file.read_text())[PAIR]))
    if not isinstance(engine, TensorParallelEngine):
        raise TypeError(f"{engine} is no group of ranks")
    try:
        return engine.parameter_bytes
    finally:
        engine.close()


def main() -> int:
    """Run and print; 1 when something was lost or differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", default="24")
    parser.add_argument("--size", default="tiny", choices=("tiny", "small"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        room = Path(root)
        checkpoint = build_tiny(room / "checkpoint", size=args.size)
        file = models_file(room / "models.yaml", checkpoint, write_adapter(checkpoint, room / "adapter"))
        source = REAL_MAIA if REAL_MAIA.is_dir() else write_source(room / "source")
        ingest_benchmark(benchmark("maia"), Folder(str(source)), Store(str(room / "data")))
        out = room / "out"
        flags = ["--models-file", str(file), "--benchmarks", "maia", "--settings", "1-frame,32-frames"]
        flags += ["--limit", args.limit, "--data", str(room / "data"), "--out", str(out)]
        argv = [sys.executable, "-m", "jobs.cli", "predict", *flags, "--models"]
        subprocess.run([*argv, WHOLE], check=True)
        started = time.monotonic()
        code = disturbed([*argv, PAIR], out)
        whole, pair = predictions(out, WHOLE), predictions(out, PAIR)
        differing = sorted(key for key in whole if key in pair and whole[key]["output"] != pair[key]["output"])
        results = {
            "source": str(source.name),
            "exit": code,
            "rows": len(pair),
            "missing": len(set(whole) - set(pair)),
            "errors": sum(row["status"] != "ok" for row in pair.values()),
            "differing": len(differing),
            "which": [(key, whole[key]["output"], pair[key]["output"]) for key in differing[:8]],
            "whole_bytes": sum(path.stat().st_size for path in checkpoint.glob("*.safetensors")),
            "rank_bytes": shares(file),
            "seconds": round(time.monotonic() - started, 1),
        }
    print(json.dumps(results, indent=1))
    return int(bool(code or results["missing"] or results["errors"] or differing))


if __name__ == "__main__":
    raise SystemExit(main())
