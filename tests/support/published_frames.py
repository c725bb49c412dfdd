"""Published numbers and dataset facts as data frames, read independently of `pipelines.benchmarks.published`."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from pipelines.benchmarks import benchmark_names
from pipelines.benchmarks.records import DOUBTFUL_NOTES

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("benchmark", "table", "model", "task", "setting", "subset", "category", "metric", "value", "unit", "note")


def published(benchmark: str = "") -> pd.DataFrame:
    """Return the published numbers of one benchmark, or of all; no rows for a benchmark without them.

    Returns:
        Columns `COLUMNS`: `value` is float64, NaN where the paper prints none; all others are text, '' where empty.
        `unit` is `fraction`, `count`, or '' for coefficients and for measures without an upper end.
    """
    import pandas as pd

    names = (benchmark,) if benchmark else published_benchmarks()
    if benchmark and not _file(benchmark).is_file():
        return pd.DataFrame({name: pd.Series(dtype="float64" if name == "value" else "object") for name in COLUMNS})
    return pd.concat([_read_published(name) for name in names], ignore_index=True)[list(COLUMNS)]


def published_benchmarks() -> tuple[str, ...]:
    """Return the benchmarks that have published numbers."""
    return tuple(name for name in benchmark_names() if _file(name).is_file())


def doubtful(frame: pd.DataFrame) -> pd.Series[bool]:
    """Return which rows of `published` cannot be right as printed."""
    return frame["note"].str.startswith(DOUBTFUL_NOTES)


def dataset_facts(benchmark: str = "") -> pd.DataFrame:
    """Return the papers' figures about their data: benchmark, table, key, value and note, all text, as printed."""
    facts = _read(files("pipelines.benchmarks").joinpath("dataset_facts.csv"))
    return facts[facts["benchmark"] == benchmark].reset_index(drop=True) if benchmark else facts


def _file(benchmark: str) -> Traversable:
    return files("pipelines.benchmarks").joinpath(benchmark, "published.csv")


def _read_published(benchmark: str) -> pd.DataFrame:
    import pandas as pd

    frame = _read(_file(benchmark))
    frame["value"] = pd.to_numeric(frame["value"])
    return frame


def _read(path: Traversable) -> pd.DataFrame:
    import pandas as pd

    with path.open("r", encoding="utf-8") as file:
        return pd.read_csv(file, dtype=str, keep_default_na=False)
