"""What `vlmsweep demo` runs: ingest the sample data, build a tiny checkpoint, and sweep MAIA with it."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

from models.spec import GenerationSpec, Limits, ModelSpec
from models.tiny import build_tiny
from pipelines.benchmarks import benchmark
from pipelines.ingest import Folder, ingest
from pipelines.run_spec import RunSpec
from pipelines.store import Store
from pipelines.sweep import Outcome, Watcher, run_sweep

__all__ = ["run_demo"]

MODEL = "tiny-qwen2.5-vl"
JUDGE = "coin-judge"
PIXELS = 64 * 48
"""A tiny model needs no large frames, and two cores are enough for small ones."""
ANSWER_TOKENS = 6


def run_demo(out: str, *, watcher: Watcher) -> tuple[RunSpec, Outcome]:
    """Run the main job under a local folder; a second run finds everything done.

    Args:
        out: a local folder.
        watcher: is told of progress.

    Raises:
        ValueError: `out` is no local folder.
    """
    if "://" in out:
        raise ValueError(f"--out {out}: the demo keeps its data and its model in a local folder")
    root = Path(out).absolute()
    data = Store(str(root / "data"))
    if not data.exists("maia/manifest.json"):
        watcher.phase("ingest sample data", 0)
        sample = Folder(str(files("jobs.demo") / "data"))
        ingest(benchmark("maia"), sample, data, progress=lambda _: watcher.advance(1, 0))
    checkpoint = root / "model"
    if not (checkpoint / "model.safetensors").is_file():
        watcher.phase("build a tiny random checkpoint", 1)
        build_tiny(checkpoint, "qwen2_5_vl")
        watcher.advance(1, 0)
    spec = RunSpec(
        data=data.uri,
        out=str(root / "results"),
        models={
            MODEL: ModelSpec(
                engine="transformers",
                model=str(checkpoint),
                dtype="float32",
                device="cpu",
                limits=Limits(max_pixels=PIXELS),
                generation=GenerationSpec(max_new_tokens=ANSWER_TOKENS),
                notes="random weights: its answers are chance",
            )
        },
        benchmarks=("maia",),
        judge=(JUDGE, ModelSpec(engine="random", notes="tosses a coin")),
        command=tuple(sys.argv),
    )
    return spec, run_sweep(spec, watcher=watcher)
