"""Tables of metrics by set of prompts, with their mean and spread, and by captioner."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean, stdev

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.tables import Table, TableCell, TableRow
from pipelines.report.entry_results import EntryResults
from pipelines.report.metrics_file import Measured, MetricSource
from pipelines.report.worded import worded, worded_if_any


def prompt_set_table(name: str, reduced: Sequence[EntryResults]) -> Table | None:
    """Return models by sets of prompts for the headline metrics of a benchmark; None where none has several sets."""
    compared = [results for results in reduced if results.prompt_sets and _has_sets(results, name)]
    sets = tuple(dict.fromkeys(prompt_set for results in compared for prompt_set in results.prompt_sets))
    rows = [row for results in compared for row in _rows(name, results, sets)]
    title = benchmark(name).title
    return worded("prompt_sets", rows, columns=sets, name=name, title=title) if compared else None


def captioner_table(name: str, reduced: Sequence[EntryResults]) -> Table | None:
    """Return models by captioners for the headline metrics of a benchmark; None where none read several's captions."""
    compared = [results for results in reduced if results.captioners and _has_sets(results, name)]
    captioners = tuple(dict.fromkeys(captioner for results in compared for captioner in results.captioners))
    rows = [row for results in compared for row in _rows_by_captioner(name, results, captioners)]
    return worded_if_any("captioners", rows, columns=captioners, name=name, title=benchmark(name).title)


def _rows_by_captioner(name: str, results: EntryResults, captioners: Sequence[str]) -> Iterator[TableRow]:
    first, in_sets = results.captioners[0], {row.key: row for row in results.by_prompt_set}
    for row in _headline_rows(name, results):
        if row.setting not in benchmark(name).captions.settings:
            continue
        sources = (MetricSource(captioner=other) for other in captioners)
        numbers = [in_sets.get(row.key._replace(source=source)) for source in sources]
        rows = {**dict(zip(captioners, numbers, strict=True)), first: row}
        cells = [number.cell if number else None for number in rows.values()]
        yield TableRow(label=row.model, cells=(row.task, row.setting, row.metric, *cells))


def _has_sets(results: EntryResults, name: str) -> bool:
    return any(row.benchmark == name for row in results.by_prompt_set)


def _headline_rows(name: str, results: EntryResults) -> Iterator[Measured]:
    """Yield the headline metrics of a model over the whole that are fractions, or differences of such."""
    definition = benchmark(name)
    metrics = {*definition.main_metrics, *definition.judged_metrics}
    for row in results.metrics:
        if row.is_whole and row.metric in metrics and row.unit == "fraction":
            yield row


def _rows(name: str, results: EntryResults, sets: Sequence[str]) -> Iterator[TableRow]:
    first, in_sets = results.prompt_sets[0], {row.key: row for row in results.by_prompt_set}
    for row in _headline_rows(name, results):
        if row.is_plain:
            continue
        rows = {name: in_sets.get(row.key._replace(source=MetricSource(prompt_set=name))) for name in sets}
        rows[first] = row
        # Counts are in the headline table.
        cells = [replace(number.cell, n=None, n_failed=None) if number else None for number in map(rows.get, sets)]
        values = [cell.value for cell in cells if cell is not None and cell.value is not None]
        spread: tuple[TableCell, ...] = (None,) * 4
        if len(values) > 1:
            spread = (fmean(values), stdev(values), min(values), max(values))
        yield TableRow(label=row.model, cells=(row.task, row.setting, row.metric, *cells, *spread))
