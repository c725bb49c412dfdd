"""Tables of metrics by set of prompts, with their mean and spread, and by captioner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.report.entry_results import EntryResults
from pipelines.report.reduce import prompt_set_subset
from pipelines.report.tables.overview import measured_value


def prompt_set_table(name: str, reduced: Sequence[EntryResults]) -> Table | None:
    """Return models by sets of prompts for the headline metrics of a benchmark; None where none has several sets."""
    compared = [results for results in reduced if results.prompt_sets and _has_sets(results, name)]
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


def captioner_table(name: str, reduced: Sequence[EntryResults]) -> Table | None:
    """Return models by captioners for the headline metrics of a benchmark; None where none read several's captions."""
    compared = [results for results in reduced if results.captioners and _has_sets(results, name)]
    captioners = tuple(dict.fromkeys(captioner for results in compared for captioner in results.captioners))
    rows = [row for results in compared for row in _rows_by_captioner(name, results, captioners)]
    if not rows:
        return None
    return Table(
        id=f"{name}_captioners",
        title=f"{benchmark(name).title}: metrics by captioner",
        columns=("Task", "Setting", "Metric", *captioners),
        rows=tuple(rows),
        style="percent1",
        notes=(
            "Percent and points; in brackets the 95% interval. n: number of rows in the denominator.",
            "The other tables show the first captioner of each model.",
        ),
    )


def _rows_by_captioner(name: str, results: EntryResults, captioners: Sequence[str]) -> Iterator[TableRow]:
    first, in_sets = results.captioners[0], {_key(row): row for row in results.by_prompt_set}
    for row in _headline_rows(name, results):
        if row["setting"] not in benchmark(name).captioned_settings:
            continue
        keys = (_key({**row, "subset": prompt_set_subset("", captioner=other)}) for other in captioners)
        rows = {**dict(zip(captioners, map(in_sets.get, keys), strict=True)), first: row}
        cells = [measured_value(number) if number else None for number in rows.values()]
        yield TableRow(label=row["model"], cells=(row["task"], row["setting"], row["metric"], *cells))


def _has_sets(results: EntryResults, name: str) -> bool:
    return any(row["benchmark"] == name for row in results.by_prompt_set)


def _headline_rows(name: str, results: EntryResults) -> Iterator[Mapping[str, Any]]:
    """Yield the headline metrics of a model over the whole that are fractions, or differences of such."""
    definition = benchmark(name)
    metrics = {definition.headline, *definition.secondary_metrics, *definition.judged_metrics}
    for row in results.metrics:
        if row["metric"] in metrics and not row["subset"] and not row["category"] and row["unit"] == "fraction":
            yield row


def _rows(name: str, results: EntryResults, sets: Sequence[str]) -> Iterator[TableRow]:
    first, in_sets = results.prompt_sets[0], {_key(row): row for row in results.by_prompt_set}
    for row in _headline_rows(name, results):
        if row["plain"]:
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
