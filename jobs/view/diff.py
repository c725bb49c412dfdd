"""Differences between two outputs: answers of the same models to the same items, and headline metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.view.index import Index, read_query
from jobs.view.listing import PAGE, paged
from jobs.view.overview import Cell, benchmark_table, metric_cell
from pipelines.report.measured import Measured
from pipelines.samples.outputs import Output, by_label

CHANGES: Final = {
    "better": "not right, now right",
    "worse": "right, now not",
    "other": "another outcome, right in neither",
    "text": "another answer, same outcome",
    "first": "in the first only",
    "second": "in the second only",
    "same": "the same answer",
}
_PAIRS: Final = read_query("changes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A page of what differs."""

    counts: list[dict[str, Any]]  # number of answers by benchmark, model and change
    rows: list[dict[str, Any]]
    total: int
    page: int
    pages: int


def find_difference(index: Index, first: Output, second: Output, change: str, page: int) -> Difference:
    """Return counts of all changes, and a page of the answers with one of them."""
    outs = [first.number, second.number]
    counts = index.rows(
        f"WITH pairs AS ({_PAIRS}) SELECT benchmark, model, change, count(*) AS n"  # noqa: S608 - constants alone
        " FROM pairs JOIN items USING (item) GROUP BY ALL ORDER BY ALL",
        outs,
    )
    total = sum(row["n"] for row in counts if row["change"] == change)
    page, pages = paged(total, page)
    rows = index.rows(
        f"WITH pairs AS ({_PAIRS}) SELECT pairs.*, benchmark, task, setting, sample_id, variant"  # noqa: S608
        " FROM pairs JOIN items USING (item) WHERE change = ?"
        " ORDER BY benchmark, task, setting, sample_id, variant, model LIMIT ? OFFSET ?",
        [*outs, change, PAGE, (page - 1) * PAGE],
    )
    return Difference(counts=counts, rows=rows, total=total, page=page, pages=pages)


def changes_by_model(difference: Difference) -> dict[tuple[str, str], dict[str, int]]:
    """Return counts by change for each benchmark and model."""
    table: dict[tuple[str, str], dict[str, int]] = {}
    for row in difference.counts:
        table.setdefault((row["benchmark"], row["model"]), {})[row["change"]] = row["n"]
    return table


def metric_changes(first: Output, second: Output) -> list[dict[str, Any]]:
    """Return the headline metrics that both outputs have and that differ."""
    names = {row.benchmark for row in first.metrics()} & {row.benchmark for row in second.metrics()}
    changes = []
    for name in sorted(names):
        metric = benchmark_table([first], name).metric
        before, after = (_headline(output, name, metric) for output in (first, second))
        for key in [key for key in before if key in after]:
            old, new = before[key].value, after[key].value
            if old == new:
                continue
            difference = None if old is None or new is None else new - old
            cells: tuple[Cell, Cell] = (metric_cell(before[key]), metric_cell(after[key]))
            changes.append({"benchmark": name, "metric": metric, "key": key, "cells": cells, "difference": difference})
    return changes


def _headline(output: Output, name: str, metric: str) -> dict[tuple[str, str, str], Measured]:
    return {
        (row.model, row.task, row.setting): row
        for row in output.metrics()
        if row.is_whole and (row.benchmark, row.metric) == (name, metric)
    }


def pair_of(outputs: Sequence[Output], first: str, second: str) -> tuple[Output, Output] | None:
    """Return two outputs by label: by default the first two; None where there are not two."""
    if len(outputs) < 2:
        return None
    labels = by_label(outputs)
    return labels.get(first, outputs[0]), labels.get(second, outputs[1])
