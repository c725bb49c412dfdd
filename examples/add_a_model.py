"""Add a model: one entry in a models file, in the form of `models/catalog/*.yaml`. No code is needed.

    python examples/add_a_model.py [OUT]

The entry names a local checkpoint with random weights, which is built here; a hub id with its revision stands in the
same place. On the command line the file is given as `--models-file my-models.yaml --models my-model`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from jobs.demo.checkpoint import build_checkpoint
from models import load_models
from pipelines import Folder, RunSpec, Store, benchmark, ingest_benchmark, run_sweep

SAMPLE_DATA = Path(__file__).parents[1] / "jobs" / "demo" / "data"
ENTRY = """\
my-model:
  engine: transformers          # auto | transformers | vllm | openai | random
  model: {checkpoint}
  dtype: float32
  device: cpu
  limits: {{max_pixels: 3072}}
  generation: {{max_new_tokens: 3, temperature: 0.0}}
"""


def main(out: Path) -> None:
    """Write the models file and evaluate its model on four of VAGUE's questions."""
    out.mkdir(parents=True, exist_ok=True)
    models_file = out / "my-models.yaml"
    models_file.write_text(ENTRY.format(checkpoint=build_checkpoint(out / "checkpoint")), encoding="utf-8")
    data = Store(str(out / "data"))
    ingest_benchmark(benchmark("vague"), Folder(str(SAMPLE_DATA / "vague")), data)
    spec = RunSpec(
        data=data.uri,
        out=str(out / "results"),
        models={"my-model": load_models([models_file])["my-model"]},
        benchmarks=("vague",),
        tasks=("mcq",),
        settings=("vlm",),
        limit="4",
    )
    result = run_sweep(spec)
    print(f"{result.requests} requests, {result.failed} failed; report: {result.report}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="vlmsweep-")))
