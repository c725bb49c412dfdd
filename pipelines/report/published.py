"""Published numbers, in the nouns of `metrics.json`, so that both can be joined.

Their sources are the tables of the five papers and a few numbers of the text, as printed:

- `maia`: All-in-one, Findings of EMNLP 2025, arXiv 2502.16989; Tables 1 to 5, section 4.2.
- `vague`: ICCV 2025, arXiv 2411.14137; Tables 1, 2, 3, H3 and H4.
- `vflute`: NAACL 2025, arXiv 2405.01474; Tables 4, 6, 7, 17 and 18, sections 5.1 and 5.3, appendix J.
- `mate`: ACL 2025, arXiv 2503.03854; Tables 1 to 5, 8 and 9, sections 6.2 and 6.4.
- `unpie`: EMNLP 2024, arXiv 2410.01023; Tables 2 to 9, section 2.3.

Percent are stored as fractions, the average over categories has category '' (UNPIE's `All` keeps its name, since '' is
the pooled value there), and settings are ours: a checkpoint fine-tuned on V-FLUTE is a model with setting zero-shot and
a note. A note that begins with `suspect`, `inconsistent` or `misprint` marks a number that cannot be right as printed:
it is shown, and nothing is compared with it.
"""

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
