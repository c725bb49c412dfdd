"""Tables of `compare` and of the end of a run."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from jobs.shared.output import print_result, table
from pipelines.benchmarks import benchmark
from pipelines.clean_text import one_line
from pipelines.decisions.gate import GateResult, LineResult
from pipelines.report.compare import CANNOT_CONCLUDE, Comparison, Difference
from pipelines.report.metrics_file import Measured
from pipelines.report.model import VERDICTS, ReproductionResult
from pipelines.report.reproduction import count_verdicts, reproduced_rule, reproduction_line
from pipelines.sweep.result import SweepResult
from pipelines.sweep.status import FailureReason

_DIFFERENCE_HEADERS = ("what", "A", "B", "B - A [95%]", "p, Holm", "verdict")
_RESULT_HEADERS = (
    *("verdict", "benchmark", "model", "number", "ours", "published", "95%", "ours - published"),
    *("published as", "table", "why"),
)
_MAIN_RESULT_COLUMNS = 6
_GATE_HEADERS = (
    "verdict",
    "benchmark",
    "model",
    "number",
    "rule",
    "value",
    "95%",
    "n",
    "failed",
    "p, Holm",
    "rows needed",
)
_METRIC_HEADERS = ("benchmark", "model", "task", "setting", "metric", "value", "n", "failed")
_COUNT_FIELDS = ("benchmark", "model", "task", "setting", "requests", "ok", "error", "excluded", "missing")


def show_comparison(comparison: Comparison, *, as_json: bool) -> None:
    """Print the result of `vlmsweep compare`."""
    differences = comparison.differences
    rows = [_difference_record(difference) for difference in differences]
    results = [_difference_row(difference) for difference in differences]
    print_result(
        as_json,
        {"differences": rows, "caveats": list(comparison.caveats)},
        *comparison_text(comparison),
        "",
        table(_DIFFERENCE_HEADERS, results),
        *(f"note: {caveat}" for caveat in comparison.caveats),
        "Fractions in percent, of rows that both scored. Interval and p: Student's t over clips, pictures or scenes, "
        "after Holm's correction for all headlines, or for all other metrics; --json has both before it.",
    )


def _difference_record(row: Difference) -> dict[str, Any]:
    record = asdict(row)
    spread = record.pop("spread") or {}
    return {**record, "standard_error": row.standard_error, "freedom": spread.get("freedom"), "verdict": row.verdict}


def _difference_row(row: Difference) -> list[Any]:
    times = 100 if row.is_percent else 1
    ends = row.shown_ends
    interval = "" if ends is None else f" [{times * ends[0]:z.1f}, {times * ends[1]:z.1f}]"  # z: no -0.0
    return [
        f"{row.benchmark} {row.task} {row.setting} {_score_name(row)}",
        *(f"{name} {times * value:.1f}" for name, value in ((row.model_a, row.mean_a), (row.model_b, row.mean_b))),
        *(f"{times * row.delta:+z.1f}{interval}", "-" if row.p_holm is None else f"{row.p_holm:.3g}", row.verdict),
    ]


def _score_name(row: Difference) -> str:
    part = ", ".join(filter(None, (row.subset, row.category)))
    return f"{row.value} ({part})" if part else row.value


def comparison_text(comparison: Comparison) -> list[str]:
    """Return the conclusions of a comparison as sentences."""
    significant = [row for row in comparison.differences if row.verdict == "differs"]
    total = len(comparison.differences)
    unclear = sum(row.verdict == CANNOT_CONCLUDE for row in comparison.differences)
    caveats = [f"Too few clusters to conclude anything: {unclear} of {total}."] if unclear else []
    if not significant:
        return [f"Differences shown: none of {total}.", *caveats]
    sentences = [f"Differences shown: {len(significant)} of {total}.", *caveats]
    for row in significant:
        direction = "higher" if row.delta > 0 else "lower"
        amount = f"{100 * abs(row.delta):.1f} points" if row.is_percent else f"{abs(row.delta):.3g}"
        sides = ("", "") if row.model_a != row.model_b else (" in A", " in B")
        p_value = "p < 0.0001" if (row.p_holm or 0.0) < 0.0001 else f"p {row.p_holm:.4f}"
        sentences.append(
            f"- {row.benchmark} {row.task} {row.setting}: {_score_name(row)} of {row.model_b}{sides[1]} is {direction} "
            f"than of {row.model_a}{sides[0]} by {amount}, on {row.n:,} rows, {p_value} after correction."
        )
    return sentences


def show_reproduction(results: Sequence[ReproductionResult], margin: float, *, as_json: bool) -> None:
    """Print the result of `vlmsweep compare --published`: one line per paper, then its results."""
    papers = {
        name: [result for result in results if result.benchmark == name]
        for name in sorted({c.benchmark for c in results})
    }
    lines = {name: reproduction_line(paper_rows) for name, paper_rows in papers.items()}
    counts = {
        name: {"result": lines[name], **dict.fromkeys(VERDICTS, 0), **count_verdicts(paper_rows)}
        for name, paper_rows in papers.items()
    }
    shown = ["No model of this run has published numbers for what it was run on."]
    if results:
        shown = [*(f"{name}: {line}" for name, line in lines.items()), ""]
        shown += [table(_RESULT_HEADERS, [_result_row(result) for result in results], main=_MAIN_RESULT_COLUMNS)]
        shown += [f"{reproduced_rule(margin)} Fractions, or counts."]
    print_result(as_json, {"margin": margin, "papers": counts, "cells": [asdict(result) for result in results]}, *shown)


def _result_row(result: ReproductionResult) -> list[Any]:
    names = (result.task, result.setting, result.subset, result.category, result.metric)
    interval = (
        "-" if result.ci_low is None or result.ci_high is None else f"[{result.ci_low:.6g}, {result.ci_high:.6g}]"
    )
    return [
        *(result.verdict, result.benchmark, result.model, " ".join(filter(None, names))),
        *("-" if result.ours is None else f"{result.ours:.6g}", f"{result.published:.6g}", interval),
        "-" if result.difference is None else f"{result.difference:+.4g}",
        *(result.published_model, result.table, "; ".join((*result.reasons, *result.own_rows))),
    ]


def headline(result: SweepResult) -> str:
    """Return the tables at the end of a run: headline metrics, and counts."""
    parts = []
    # Of the whole, with the metrics that a headline consists of.
    if metrics := [n for n in result.metrics if n.is_whole and n.metric in benchmark(n.benchmark).main_metrics]:
        names = ("benchmark", "model", "task", "setting", "metric")
        rows = [[*(getattr(row, name) for name in names), format_value(row), row.n, row.n_failed] for row in metrics]
        parts.append(table(_METRIC_HEADERS, rows))
    parts.append(table(_COUNT_FIELDS, [[getattr(c, name) for name in _COUNT_FIELDS] for c in result.counts]))
    if result.report:
        parts.append(f"report: {result.report}")
    return "\n\n".join(parts)


def format_value(row: Measured) -> str:
    """Return the value of a metric with its interval, fractions as percent."""
    value, low, high = row.value, row.ci_low, row.ci_high
    if value is None:
        return "-"
    if row.is_plain:
        return f"{value:.3f}" + ("" if low is None or high is None else f" [{low:.3f}, {high:.3f}]")
    interval = "" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]"
    return f"{100 * value:.1f}%{interval}"


def failure_lines(reasons: Sequence[FailureReason]) -> list[str]:
    """Return the end of a run with failed rows: how many for each reason, the first of them and what to do."""
    lines = [f"{sum(reason.rows for reason in reasons):,} failed rows:"] if reasons else []
    for reason in reasons:
        lines += [f"  {one_line(reason.cause)}", f"    {reason.remedy}"]
    return lines


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


def show_gate(result: GateResult, *, as_json: bool) -> None:
    """Print a decision: the lines, then the decision."""
    lines = table(_GATE_HEADERS, [_policy_line(line) for line in result.lines])
    noted = (line for line in result.lines if line.note)
    notes = (f"{line.benchmark} {line.model} {line.task} {line.setting} {line.metric}: {line.note}" for line in noted)
    print_result(as_json, asdict(result), lines, *notes, "", result.decision)


def _policy_line(line: LineResult) -> list[str]:
    number = " ".join(filter(None, (line.task, line.setting, line.subset, line.category, line.metric)))
    ends = "-" if line.ci_low is None or line.ci_high is None else f"[{line.ci_low:.4g}, {line.ci_high:.4g}]"
    value = "-" if line.value is None else f"{line.value:.4g}"
    return [
        *(line.verdict, line.benchmark, line.model, number, line.rule),
        value if line.baseline is None else f"{line.value:+.4g} to {line.baseline:.4g}",
        *(ends, f"{line.n:,}", f"{line.n_failed:,}", "-" if line.p_holm is None else f"{line.p_holm:.2g}"),
        "-" if line.rows_needed is None else f"{line.rows_needed:,}",
    ]
