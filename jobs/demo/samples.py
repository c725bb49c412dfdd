"""Sample data of our own for every benchmark, in the forms as distributed; package data, but for MATE's scenes."""

from importlib.resources import files
from pathlib import Path

from pipelines.registry import extension

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
