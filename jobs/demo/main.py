"""What `vlmsweep demo` runs: ingest sample data, and sweep all benchmarks with a small trained model.

Text-similarity models are left out: a fresh machine would fetch gigabytes, and the model writes no explanations.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from jobs.demo.checkpoint import TRAINED_MODEL
from models.entry_fields import GenerationSpec, Limits
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.errors import UsageError
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.plan.run_spec import RunSpec
from pipelines.progress import ProgressListener
from pipelines.registry import extension
from pipelines.storage.store import Store
from pipelines.sweep.result import SweepResult
from pipelines.sweep.run import run_sweep

BENCHMARKS = ("vague", "vflute", "maia", "mate", "unpie")
_SCENES = 24
_OBJECTS = (3, 6)
_SEED = 42


def write_sample(benchmark: str, folder: Path) -> Path:
    """Return the folder of a benchmark's sample data: installed, or for MATE scenes generated anew into `folder`."""
    if benchmark != "mate":
        return Path(str(files("jobs.demo") / "data" / benchmark))
    source = folder / benchmark
    source.mkdir(parents=True, exist_ok=True)
    extension("generate_scenes")(source, _OBJECTS, _SCENES, _SEED)
    return source


MODEL = "tiny-qwen2.5-vl"
BASELINE = "random"
JUDGE = "coin-judge"
CAPTIONER = "tiny-captioner"
PIXELS = 420 * 280  # the size with which the model was trained
ANSWER_TOKENS = 12
CAPTION_TOKENS = 5
QUICK_SETTINGS = ("vlm", "zero-shot", "32-frames", "0-shot")  # one of each benchmark, without `--all`


def run_demo(out: str, *, all_settings: bool, progress: ProgressListener) -> tuple[RunSpec, SweepResult]:
    """Run the main job under a local folder, in one setting of each benchmark or in all; resume an earlier run.

    Raises:
        UsageError: `out` is no local folder.
        StoreError: nothing can be written there.
    """
    if "://" in out:
        raise UsageError(f"--out {out}: the demo keeps its data in a local folder")
    Store(out).check_writable()
    root = Path(out).expanduser().absolute()
    data = Store(str(root / "data"))
    for name in BENCHMARKS:
        _ingest_sample(name, root / "samples", data, progress)
    spec = RunSpec(
        data=data.uri,
        out=str(root / "results"),
        models={MODEL: _small(ANSWER_TOKENS), BASELINE: ModelSpec(engine="random", notes="guesses among the choices")},
        benchmarks=BENCHMARKS,
        settings=() if all_settings else QUICK_SETTINGS,
        default_scorers=False,
        judges=((JUDGE, ModelSpec(engine="random", notes="tosses a coin")),),
        captioners=((CAPTIONER, _small(CAPTION_TOKENS)),),
        command=tuple(sys.argv),
    )
    return spec, run_sweep(spec, progress=progress)


def _ingest_sample(name: str, samples: Path, data: Store, progress: ProgressListener) -> None:
    if data.exists(f"{name}/manifest.json"):
        return
    progress.phase(f"ingest {name} sample data", 0)
    source = Folder(str(write_sample(name, samples)))
    with _few_words():
        ingest_benchmark(benchmark(name), source, data, progress=lambda _: progress.advance(1, 0))


@contextlib.contextmanager
def _few_words() -> Iterator[None]:
    """Silence ingest's remarks on an incomplete data set, which the samples are on purpose."""
    log = logging.getLogger("pipelines.ingest.ingest")
    before = log.level
    log.setLevel(logging.INFO if logging.getLogger().isEnabledFor(logging.INFO) else logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _small(tokens: int) -> ModelSpec:
    return ModelSpec(
        engine="transformers",
        model=str(TRAINED_MODEL),
        dtype="float32",
        device="cpu",
        limits=Limits(max_pixels=PIXELS),
        generation=GenerationSpec(max_new_tokens=tokens, num_beams=1),
        notes="trained to read generated scenes, as pictures and as text; nothing else",
    )
