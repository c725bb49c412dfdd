"""Table of metrics by set of prompts, with their mean and spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.report.reduce import EntryResults, prompt_set_subset
from pipelines.report.tables.overview import measured_value


def prompt_set_table(name: str, reduced: Sequence[EntryResults]) -> Table | None:
    """Return models by sets of prompts for the headline metrics of a benchmark; None where none has several sets."""
    compared = [results for results in reduced if any(row["benchmark"] == name for row in results.by_prompt_set)]
    if not compared:
        return None
    sets = tuple(dict.fromkeys(prompt_set for results in compared for prompt_set in results.prompt_sets))
    return Table(
        id=f"{name}_prompt_sets",
        title=f"{benchmark(name).title}: metrics by set of prompts",
        columns=("Task", "Setting", "Metric", *sets, "Mean", "SD", "Minimum", "Maximum"),
        rows=tuple(row for results in compared for row in _rows(name, results, sets)),
        style="percent1",
        notes=(
            "Percent; in brackets the 95% interval. SD: over the sets, with their number less one as divisor.",
            "The other tables show the first set of each model.",
        ),
    )


def _rows(name: str, results: EntryResults, sets: Sequence[str]) -> Iterator[TableRow]:
    definition = benchmark(name)
    metrics = {definition.headline, *definition.secondary_metrics, *definition.judged_metrics}
    first, in_sets = results.prompt_sets[0], {_key(row): row for row in results.by_prompt_set}
    for row in results.metrics:
        is_percent = row["unit"] == "fraction" and not row["plain"]
        if row["metric"] not in metrics or row["subset"] or row["category"] or not is_percent:
            continue
        rows = {prompt_set: in_sets.get(_key({**row, "subset": prompt_set_subset(prompt_set)})) for prompt_set in sets}
        rows[first] = row
        cells = [_cell(rows[prompt_set]) for prompt_set in sets]
        values = [cell.value for cell in cells if cell is not None and cell.value is not None]
        spread: tuple[TableCell, ...] = (None,) * 4
        if len(values) > 1:
            spread = (fmean(values), stdev(values), min(values), max(values))
        yield TableRow(label=row["model"], cells=(row["task"], row["setting"], row["metric"], *cells, *spread))


def _cell(row: Mapping[str, Any] | None) -> TableValue | None:
    """Return the number with its interval; counts are in the headline table."""
    return None if row is None else replace(measured_value(row), n=None, n_failed=None)


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("task", "setting", "metric", "subset", "category"))
