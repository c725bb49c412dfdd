"""The summary of a night as Markdown for issues and chats."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.benchmarks import benchmark

if TYPE_CHECKING:
    from pipelines.nightly.history import Pair
    from pipelines.nightly.records import MetricShift, NightlyResult

MAX_SHIFTS = 40  # rows of the table; the Parquet file has all


def summary(night: NightlyResult, free_models: Collection[str]) -> str:
    """Return the summary of a night; `free_models` cost nothing."""
    ran, failed, unchanged = (night.pairs_in(state) for state in ("ran", "failed", "unchanged"))
    whole_shifts = [shift for shift in night.shifts if shift.whole]
    part_shifts = [shift for shift in night.shifts if not shift.whole]
    lines = [f"# Nightly {_day(night.name)}: {_verdict(night, whole_shifts)}", ""]
    counts = (
        f"{len(ran)} pairs run, {len(unchanged)} unchanged and not run, {len(failed)} failed. "
        f"Cost: {_dollars(night)}, {_span(sum(pair.seconds for pair in night.pairs))} of run time."
    )
    lines += [counts, ""]
    if whole_shifts:
        lines += ["## Moved", "", *_shifts_table(whole_shifts), ""]
    if failed or night.over_budget:
        lines += ["## Failed", "", *_failures(night, failed), ""]
    if ran:
        lines += ["## Run", "", *_pairs_table(night, ran, free_models), ""]
    if part_shifts:
        lines += [
            f"<details><summary>Subsets and categories that moved: {len(part_shifts)}; some of so many do by chance"
        ]
        lines += ["</summary>", "", *_shifts_table(part_shifts[:MAX_SHIFTS]), "", "</details>", ""]
    if night.warnings:
        lines += ["## Notes", "", *(f"- {_safe(warning)}" for warning in night.warnings), ""]
    lines += ["A number moved if it left the 95% interval of its previous measurement."]
    return "\n".join(lines) + "\n"


def _verdict(night: NightlyResult, whole_shifts: Sequence[MetricShift]) -> str:
    verdicts = []
    if whole_shifts:
        verdicts.append(f"{len(whole_shifts)} numbers moved")
    failed = sorted({pair.model for pair in night.pairs_in("failed")} | set(night.over_budget))
    if failed:
        verdicts.append(f"{len(failed)} models failed")
    return ", ".join(verdicts) or "all well"


def _shifts_table(shifts: Iterable[MetricShift]) -> list[str]:
    rows = ["| benchmark | model | task | setting | part | metric | was | interval | is |", "|" + "---|" * 9]
    for shift in shifts:
        bench, task, model, setting, subset, category, metric = (_safe(part) for part in shift.key)
        part = " ".join(name for name in (subset, category) if name) or "all"
        low, high = shift.interval
        now = "gone" if shift.now is None else f"**{shift.now:.3f}**"
        cells = (bench, model, task, setting, part, metric, f"{shift.before:.3f}", f"{low:.3f} to {high:.3f}", now)
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _pairs_table(night: NightlyResult, pairs: Iterable[Pair], free_models: Collection[str]) -> list[str]:
    rows = ["| benchmark | model | why | requests | failed | headline | cost |", "|" + "---|" * 7]
    for pair in pairs:
        cost = "-" if pair.cost_usd is None else f"${pair.cost_usd:,.2f}"
        if pair.cost_usd is None and pair.model in free_models:
            cost = "none"
        cells = (pair.benchmark, _safe(pair.model), pair.why, str(pair.requests), str(pair.failed))
        rows.append("| " + " | ".join((*cells, _headline(night.metrics, pair), cost)) + " |")
    return rows


def _headline(metrics: Iterable[Mapping[str, Any]], pair: Pair) -> str:
    headline = benchmark(pair.benchmark).headline
    values = []
    for row in metrics:
        is_of_pair = (row["benchmark"], row["model"]) == (pair.benchmark, pair.model)
        if is_of_pair and row["metric"] == headline and row["subset"] == "" and row["category"] == "":
            value = "-" if row["value"] is None else f"{row['value']:.3f}"
            values.append(f"{row['task']} {row['setting']} {value}")
    return _safe("; ".join(values)) or "-"


def _failures(night: NightlyResult, failed: Iterable[Pair]) -> list[str]:
    rows = [f"- {_safe(pair.model)} on {pair.benchmark}: {_safe(pair.why)}" for pair in failed]
    for model in night.over_budget:
        n = sum(pair.failed for pair in night.pairs if pair.model == model)
        rows.append(f"- {_safe(model)}: more rows failed than allowed ({n}, and the judge's); retried the next night")
    return rows


def _dollars(night: NightlyResult) -> str:
    unknown = sum(pair.cost_usd is None for pair in night.pairs_in("ran"))
    return f"${night.cost_usd:,.2f}" + (f" and {unknown} pairs without a known price" if unknown else "")


def _span(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"


def _day(night: str) -> str:
    return f"{night[:4]}-{night[4:6]}-{night[6:8]} {night[9:11]}:{night[11:13]} UTC"


def _safe(text: str) -> str:
    """Escape foreign text for a table: no markup, mentions or line ends."""
    clean = " ".join(text.split())
    for sign in "\\`|<>*_[]":
        clean = clean.replace(sign, "&#" + str(ord(sign)) + ";")
    return clean.replace("@", "@\u200b")
