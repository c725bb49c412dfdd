"""Run a sweep from Python: ingest sample data, evaluate a model on it and print the metrics.

    python examples/run_a_sweep.py [OUT]

The model guesses at random, so that the example needs no weights and ends within a minute. Running it again with the
same OUT does only what is missing.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from models import load_models
from pipelines import Folder, RunSpec, Store, benchmark, ingest_benchmark, run_sweep

SAMPLE_DATA = Path(__file__).parents[1] / "jobs" / "demo" / "data"


def main(out: Path) -> None:
    """Ingest VAGUE's sample data and evaluate the random baseline on its multiple-choice task."""
    data = Store(str(out / "data"))
    if not data.exists("vague/manifest.json"):
        ingest_benchmark(benchmark("vague"), Folder(str(SAMPLE_DATA / "vague")), data)
    spec = RunSpec(
        data=data.uri,
        out=str(out / "results"),
        models={"random": load_models()["random"]},
        benchmarks=("vague",),
        tasks=("mcq",),
        settings=("vlm",),
    )
    result = run_sweep(spec)
    for metric in result.metrics:
        if metric["metric"] == "accuracy" and not metric["subset"] and not metric["category"]:
            print(f"{metric['model']}, {metric['setting']}: accuracy {metric['value']:.0%} of {metric['n']} questions")
    print(f"report: {result.report}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="vlmsweep-")))
