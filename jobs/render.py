"""Tables of `compare` and of the end of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from jobs.output import print_json, print_line, table
from pipelines.benchmarks import benchmark
from pipelines.report.compare import CANNOT_CONCLUDE, Comparison, Difference
from pipelines.report.measured import Measured
from pipelines.report.model import VERDICTS, ReproductionCell
from pipelines.report.reproduction import REPRODUCED_RULE, count_verdicts, reproduction_line
from pipelines.sweep.result import SweepResult

_DIFFERENCE_HEADERS = (
    *("benchmark", "A", "B", "task", "setting", "score", "n", "clusters", "A", "B", "B - A", "95%", "effect"),
    *("test", "p", "p, Holm", "p, McNemar", "answers changed", ""),
)
_CELL_HEADERS = (
    *("benchmark", "model", "published as", "table", "number", "ours", "95%", "published", "ours - published"),
    *("verdict", "why"),
)
_METRIC_HEADERS = ("benchmark", "model", "task", "setting", "metric", "value", "n", "failed")
_COUNT_FIELDS = ("benchmark", "model", "task", "setting", "requests", "ok", "error", "excluded", "missing")


def show_comparison(comparison: Comparison, *, as_json: bool) -> None:
    """Print the result of `vlmsweep compare`."""
    differences = comparison.differences
    if as_json:
        rows = [{**asdict(difference), "verdict": difference.verdict} for difference in differences]
        print_json({"differences": rows, "caveats": list(comparison.caveats)})
        return
    print_line(table(_DIFFERENCE_HEADERS, [_difference_row(difference) for difference in differences]))
    for caveat in comparison.caveats:
        print_line(f"note: {caveat}")
    print_line(
        "Rows that both scored. Clusters: clips, pictures or scenes. 95%: jackknife over clusters with Student's t. "
        "p, two-sided: paired permutation of whole clusters. McNemar, "
        "exact: only where every row is a cluster of its own. Holm: corrected for all tests here. Effect: Cohen's h of "
        "shares, else d, in standard deviations of the clusters' contributions."
    )
    print_line("")
    for sentence in comparison_text(comparison):
        print_line(sentence)


def _difference_row(row: Difference) -> list[Any]:
    interval = "-" if row.ci_low is None or row.ci_high is None else f"[{row.ci_low:+.3f}, {row.ci_high:+.3f}]"
    return [
        *(row.benchmark, row.model_a, row.model_b, row.task, row.setting, _score_name(row), row.n, row.clusters),
        *(f"{row.mean_a:.3f}", f"{row.mean_b:.3f}", f"{row.delta:+.3f}", interval),
        *("-" if row.effect is None else f"{row.effect_name} {row.effect:+.2f}", row.test),
        *("-" if p is None else f"{p:.3g}" for p in (row.p, row.p_holm, row.p_mcnemar)),
        *("-" if row.changed is None else row.changed, row.verdict),
    ]


def _score_name(row: Difference) -> str:
    part = ", ".join(filter(None, (row.subset, row.category)))
    return f"{row.value} ({part})" if part else row.value


def comparison_text(comparison: Comparison) -> list[str]:
    """Return the conclusions of a comparison as sentences."""
    significant = [row for row in comparison.differences if row.verdict == "differs"]
    equal = sum(row.verdict == "equal" for row in comparison.differences)
    total = len(comparison.differences)
    unclear = sum(row.verdict == CANNOT_CONCLUDE for row in comparison.differences)
    caveats = [f"{unclear} of {total} differences rest on too few clusters to conclude anything."] if unclear else []
    if not significant:
        sentence = f"None of {total} differences is more than chance"
        return [f"{sentence}; {equal} of them are none at all." if equal else f"{sentence}.", *caveats]
    sentences = [f"{len(significant)} of {total} differences are more than chance; {equal} are none at all.", *caveats]
    for row in significant:
        direction = "higher" if row.delta > 0 else "lower"
        p_value = "" if row.p_holm is None else f", p {max(row.p_holm, 0.0001):.4f} after correction"
        sentences.append(
            f"- {row.benchmark} {row.task} {row.setting}: {_score_name(row)} of {row.model_b} in B is {direction} than "
            f"of {row.model_a} in A by {abs(row.delta):.3f}, on {row.n:,} rows{p_value}."
        )
    return sentences


def show_reproduction(cells: Sequence[ReproductionCell], *, as_json: bool) -> None:
    """Print the result of `vlmsweep compare --published`: one line per paper, then its cells."""
    papers = {name: [cell for cell in cells if cell.benchmark == name] for name in sorted({c.benchmark for c in cells})}
    lines = {name: reproduction_line(of_paper) for name, of_paper in papers.items()}
    if as_json:
        counts = {
            name: {"result": lines[name], **dict.fromkeys(VERDICTS, 0), **count_verdicts(of_paper)}
            for name, of_paper in papers.items()
        }
        print_json({"papers": counts, "cells": [asdict(cell) for cell in cells]})
        return
    for name, line in lines.items():
        print_line(f"{name}: {line}")
    if not cells:
        print_line("No model of this run has published numbers for what it was run on.")
        return
    print_line("")
    print_line(table(_CELL_HEADERS, [_cell_row(cell) for cell in cells]))
    print_line(f"{REPRODUCED_RULE} Fractions, or counts.")


def _cell_row(cell: ReproductionCell) -> list[Any]:
    names = (cell.task, cell.setting, cell.subset, cell.category, cell.metric)
    interval = "-" if cell.ci_low is None or cell.ci_high is None else f"[{cell.ci_low:.6g}, {cell.ci_high:.6g}]"
    return [
        *(cell.benchmark, cell.model, cell.published_model, cell.table, " ".join(filter(None, names))),
        *("-" if cell.ours is None else f"{cell.ours:.6g}", interval, f"{cell.published:.6g}"),
        *(
            "-" if cell.difference is None else f"{cell.difference:+.4g}",
            cell.verdict,
            "; ".join((*cell.reasons, *cell.own_rows)),
        ),
    ]


def headline(result: SweepResult) -> str:
    """Return the tables at the end of a run: headline metrics, and counts."""
    parts = []
    if metrics := _headline_rows(result.metrics):
        names = ("benchmark", "model", "task", "setting", "metric")
        rows = [[*(getattr(row, name) for name in names), format_value(row), row.n, row.n_failed] for row in metrics]
        parts.append(table(_METRIC_HEADERS, rows))
    parts.append(table(_COUNT_FIELDS, [[getattr(c, name) for name in _COUNT_FIELDS] for c in result.counts]))
    if result.report:
        parts.append(f"report: {result.report}")
    return "\n\n".join(parts)


def _headline_rows(metrics: Sequence[Measured]) -> list[Measured]:
    """Return the headline metrics of each benchmark over the whole, and the metrics that they consist of."""
    return [row for row in metrics if row.is_whole and row.metric in benchmark(row.benchmark).main_metrics]


def format_value(row: Measured) -> str:
    """Return the value of a metric with its interval, fractions as percent."""
    value, low, high = row.value, row.ci_low, row.ci_high
    if value is None:
        return "-"
    if row.is_plain:
        return f"{value:.3f}" + ("" if low is None or high is None else f" [{low:.3f}, {high:.3f}]")
    interval = "" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]"
    return f"{100 * value:.1f}%{interval}"


def summary(result: SweepResult) -> dict[str, Any]:
    """Return the end of a run as data for `--json`."""
    spending = asdict(result.spending.record())
    del spending["at"]
    return {
        "requests": result.requests,
        "failed": result.failed,
        "counts": [{name: getattr(count, name) for name in _COUNT_FIELDS} for count in result.counts],
        "report": result.report,
        "warnings": result.warnings,
        "unavailable": result.unavailable,
        "spending": spending,
    }
