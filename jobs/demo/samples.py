"""Sample data of our own for every benchmark, in the forms as distributed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path

from jobs.demo.unpie_sample import write_unpie
from jobs.demo.vague_sample import write_vague
from jobs.demo.vflute_sample import write_vflute

__all__ = ["BENCHMARKS", "write_sample"]

_SCENES = 24
_OBJECTS = (3, 6)
_SEED = 42


def _write_mate(folder: Path) -> None:
    from pipelines.generate.mate import generate

    generate(folder, _OBJECTS, _SCENES, _SEED)


_WRITERS: Mapping[str, Callable[[Path], None]] = {
    "vague": write_vague,
    "vflute": write_vflute,
    "unpie": write_unpie,
    "mate": _write_mate,
}
BENCHMARKS = ("vague", "vflute", "maia", "mate", "unpie")


def write_sample(benchmark: str, folder: Path) -> Path:
    """Write a benchmark's sample data below a folder, the same bytes every time.

    Args:
        benchmark: which.
        folder: gets a folder of the benchmark's name; files of a run that was cut short are replaced.

    Returns:
        The source to ingest; MAIA's is part of the installation and is not copied.
    """
    if benchmark == "maia":
        return Path(str(files("jobs.demo") / "data"))
    source = folder / benchmark
    source.mkdir(parents=True, exist_ok=True)
    _WRITERS[benchmark](source)
    return source
