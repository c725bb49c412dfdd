"""What `list`, `status`, `compare` and the end of a run show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from jobs.output import print_json, print_line, table
from pipelines.benchmarks import benchmark
from pipelines.report.compare import Comparison, Difference
from pipelines.sweep.result import SweepResult


def show_comparison(found: Comparison, *, as_json: bool) -> None:
    """Print what `vlmsweep compare` found."""
    if as_json:
        rows = [{**asdict(one), "verdict": one.verdict} for one in found.differences]
        print_json({"differences": rows, "caveats": list(found.caveats)})
        return
    heads = (
        "benchmark",
        "A",
        "B",
        "task",
        "setting",
        "score",
        "n",
        "A",
        "B",
        "B - A",
        "95%",
        "test",
        "p",
        "p, Holm",
        "answers changed",
        "",
    )
    print_line(table(heads, [_difference_row(one) for one in found.differences]))
    for caveat in found.caveats:
        print_line(f"note: {caveat}")
    print_line(
        "Rows that both scored. 95%: paired bootstrap over what shares media. p, two-sided: exact McNemar for yes-no "
        "scores, paired bootstrap for others, Koehn's paired bootstrap over rows for F1. Holm: corrected for all tests "
        "here."
    )
    print_line("")
    for sentence in comparison_in_words(found):
        print_line(sentence)


def _difference_row(one: Difference) -> list[Any]:
    interval = "-" if one.ci_low is None or one.ci_high is None else f"[{one.ci_low:+.3f}, {one.ci_high:+.3f}]"
    return [
        *(one.benchmark, one.model_a, one.model_b, one.task, one.setting, one.value, one.n),
        *(f"{one.mean_a:.3f}", f"{one.mean_b:.3f}", f"{one.delta:+.3f}", interval),
        *(one.test or "-", "-" if one.p is None else f"{one.p:.3g}"),
        *("-" if one.p_holm is None else f"{one.p_holm:.3g}", one.changed, one.verdict),
    ]


def comparison_in_words(found: Comparison) -> list[str]:
    """What the comparison means, in sentences."""
    apart = [one for one in found.differences if one.verdict == "differs"]
    equal = sum(one.verdict == "equal" for one in found.differences)
    total = len(found.differences)
    if not apart:
        words = f"None of {total} differences is more than chance"
        return [f"{words}; {equal} of them are none at all." if equal else f"{words}."]
    sentences = [f"{len(apart)} of {total} differences are more than chance; {equal} are none at all."]
    for one in apart:
        side = "higher" if one.delta > 0 else "lower"
        chance = "" if one.p_holm is None else f", p {max(one.p_holm, 0.0001):.4f} after correction"
        sentences.append(
            f"- {one.benchmark} {one.task} {one.setting}: {one.value} of {one.model_b} in B is {side} than of "
            f"{one.model_a} in A by {abs(one.delta):.3f}, on {one.n:,} rows{chance}."
        )
    return sentences


def headline(outcome: SweepResult) -> str:
    """The table at the end of a run: counts, and the metrics that stand first."""
    parts = []
    chosen = _headline_rows(outcome.metrics)
    if chosen:
        rows = [
            [
                row["benchmark"],
                row["model"],
                row["task"],
                row["setting"],
                row["metric"],
                _percent(row),
                row["n"],
                row["n_failed"],
            ]
            for row in chosen
        ]
        parts.append(table(("benchmark", "model", "task", "setting", "metric", "value", "n", "failed"), rows))
    cells = [
        [c.benchmark, c.model, c.task, c.setting, c.requests, c.ok, c.error, c.excluded, c.missing]
        for c in outcome.counts
    ]
    parts.append(
        table(("benchmark", "model", "task", "setting", "requests", "ok", "error", "excluded", "missing"), cells)
    )
    if outcome.report:
        parts.append(f"report: {outcome.report}")
    return "\n\n".join(parts)


def _headline_rows(metrics: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of each benchmark the headline over the whole, and beside it the metrics that it is made of."""
    shown = []
    for row in metrics:
        one = benchmark(row["benchmark"])
        if row["subset"] == "" and row["category"] == "" and row["metric"] in (one.headline, *one.secondary_metrics):
            shown.append(row)
    return shown


def _percent(row: Mapping[str, Any]) -> str:
    """Shares as percent; differences, and measures without an upper end, as they are."""
    value = row["value"]
    if value is None or math.isnan(value):
        return "-"
    if row.get("plain"):
        ends = "" if row["ci_low"] is None else f" [{row['ci_low']:.3f}, {row['ci_high']:.3f}]"
        return f"{value:.3f}{ends}"
    text = f"{100 * value:.1f}%"
    if row["ci_low"] is not None:
        text += f" [{100 * row['ci_low']:.1f}, {100 * row['ci_high']:.1f}]"
    return text


def summary(outcome: SweepResult) -> dict[str, Any]:
    """The end of a run as JSON."""
    return {
        "requests": outcome.requests,
        "failed": outcome.failed,
        "counts": [
            {
                "benchmark": c.benchmark,
                "model": c.model,
                "task": c.task,
                "setting": c.setting,
                "requests": c.requests,
                "ok": c.ok,
                "error": c.error,
                "excluded": c.excluded,
                "missing": c.missing,
            }
            for c in outcome.counts
        ],
        "report": outcome.report,
        "warnings": outcome.warnings,
        "unavailable": outcome.unavailable,
        "spending": outcome.spending.as_json(),
    }
