"""What a night comes to, in Markdown that an issue or a chat shows well."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.benchmarks import benchmark

if TYPE_CHECKING:
    from pipelines.nightly.history import Pair
    from pipelines.nightly.records import MetricShift, NightlyResult

MOST_MOVES = 40
"""Rows of the table; the Parquet file has all."""


def summary(night: NightlyResult, free_models: Collection[str]) -> str:
    """The night as Markdown.

    Args:
        night: how it went.
        free_models: models that cost nothing.
    """
    ran, failed, unchanged = (night.of_state(state) for state in ("ran", "failed", "unchanged"))
    wholes = [move for move in night.moves if move.whole]
    parts = [move for move in night.moves if not move.whole]
    lines = [f"# Nightly {_day(night.name)}: {_verdict(night, wholes)}", ""]
    counts = (
        f"{len(ran)} pairs run, {len(unchanged)} unchanged and not run, {len(failed)} failed. "
        f"Cost: {_dollars(night)}, {_span(sum(pair.seconds for pair in night.pairs))} of sweeping."
    )
    lines += [counts, ""]
    if wholes:
        lines += ["## Moved", "", *_moves_table(wholes), ""]
    if failed or night.over_budget:
        lines += ["## Failed", "", *_failures(night, failed), ""]
    if ran:
        lines += ["## Run", "", *_pairs_table(night, ran, free_models), ""]
    if parts:
        lines += [f"<details><summary>Subsets and categories that moved: {len(parts)}; of many, some do by chance"]
        lines += ["</summary>", "", *_moves_table(parts[:MOST_MOVES]), "", "</details>", ""]
    if night.warnings:
        lines += ["## Notes", "", *(f"- {_safe(warning)}" for warning in night.warnings), ""]
    lines += ["A number moved when it left the 95% interval that it had when it was last measured."]
    return "\n".join(lines) + "\n"


def _verdict(night: NightlyResult, wholes: Sequence[MetricShift]) -> str:
    told = []
    if wholes:
        told.append(f"{len(wholes)} numbers moved")
    failed = sorted({pair.model for pair in night.of_state("failed")} | set(night.over_budget))
    if failed:
        told.append(f"{len(failed)} models failed")
    return ", ".join(told) or "all well"


def _moves_table(moves: Iterable[MetricShift]) -> list[str]:
    rows = ["| benchmark | model | task | setting | part | metric | was | interval | is |", "|" + "---|" * 9]
    for move in moves:
        bench, task, model, setting, subset, category, metric = (_safe(one) for one in move.key)
        part = " ".join(one for one in (subset, category) if one) or "all"
        low, high = move.interval
        now = "gone" if move.now is None else f"**{move.now:.3f}**"
        cells = (bench, model, task, setting, part, metric, f"{move.before:.3f}", f"{low:.3f} to {high:.3f}", now)
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
    """The benchmark's first number over the whole, setting by setting."""
    wanted = benchmark(pair.benchmark).headline
    told = []
    for row in metrics:
        mine = (row["benchmark"], row["model"]) == (pair.benchmark, pair.model)
        if mine and row["metric"] == wanted and row["subset"] == "" and row["category"] == "":
            value = "-" if row["value"] is None else f"{row['value']:.3f}"
            told.append(f"{row['task']} {row['setting']} {value}")
    return _safe("; ".join(told)) or "-"


def _failures(night: NightlyResult, failed: Iterable[Pair]) -> list[str]:
    rows = [f"- {_safe(pair.model)} on {pair.benchmark}: {_safe(pair.why)}" for pair in failed]
    for model in night.over_budget:
        n = sum(pair.failed for pair in night.pairs if pair.model == model)
        rows.append(
            f"- {_safe(model)}: more rows failed than allowed ({n}, and the judge's); asked again the next night"
        )
    return rows


def _dollars(night: NightlyResult) -> str:
    unknown = sum(pair.cost_usd is None for pair in night.of_state("ran"))
    return f"${night.cost_usd:,.2f}" + (f" and {unknown} pairs of no known price" if unknown else "")


def _span(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"


def _day(night: str) -> str:
    return f"{night[:4]}-{night[4:6]}-{night[6:8]} {night[9:11]}:{night[11:13]} UTC"


def _safe(text: str) -> str:
    """Text of models and libraries inside a table: no markup, no mention of people, no new line."""
    clean = " ".join(text.split())
    for sign in "\\`|<>*_[]":
        clean = clean.replace(sign, "&#" + str(ord(sign)) + ";")
    return clean.replace("@", "@\u200b")
