"""The summary of a nightly run as Markdown for issues and chats."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from jobs.nightly.regressions import UNCONFIRMED_P
from pipelines.benchmarks import benchmark
from pipelines.clean_text import counted, one_line
from pipelines.report.metrics_file import Measured

if TYPE_CHECKING:
    from jobs.nightly.history import Pair
    from jobs.nightly.records import GoneMetric, NightlyResult
    from jobs.nightly.regressions import Change

_RULE = (
    "A score moved if its samples differ from the level that it had since its last move, tonight or over nights added "
    "up; samples that share media count as one. Each move is reported once, with the means over the paired samples. "
    "While nothing changes, a history reports at most one move a year."
)
MAX_UNCONFIRMED = 40  # rows of the table; the Parquet file has all


def summary(result: NightlyResult, free_models: Collection[str]) -> str:
    """Return the summary of a nightly run; `free_models` cost nothing."""
    ran, failed, unchanged, waiting = (result.pairs_in(state) for state in ("ran", "failed", "unchanged", "waiting"))
    gone, parts_gone = ([metric for metric in result.gone if metric.is_alarm is whole] for whole in (True, False))
    unconfirmed = result.comparison.unconfirmed
    returned = [change for change in result.comparison.changes if not change.is_alarm]
    lines = [f"# Nightly {_day(result.name)}: {_verdict(result, gone)}", ""]
    counts = f"{counted(len(ran), 'pair')} run, {len(unchanged)} unchanged and not run, {len(failed)} failed"
    counts += f", {len(waiting)} wait for the budget. " if waiting else ". "
    counts += f"Cost: {_dollars(result, free_models)}, {_span(sum(pair.seconds for pair in result.pairs))} of run time."
    lines += [counts, ""]
    if result.comparison.alarms or gone:
        lines += ["## Moved", ""]
        lines += [*_changes_table(result, result.comparison.alarms), ""] if result.comparison.alarms else []
        lines += [*_gone_table(gone), ""] if gone else []
    if returned:
        lines += ["## Returned", "", *_changes_table(result, returned), ""]
    if failed or result.over_budget:
        lines += ["## Failed", "", *_failures(result, failed), ""]
    if ran:
        lines += ["## Run", "", *_pairs_table(result, ran, free_models), ""]
    if waiting:
        lines += ["## Waiting", "", *(f"- {_pair(pair)}: {_safe(pair.why)}" for pair in waiting), ""]
    if unconfirmed:
        head = (
            f"{counted(len(unconfirmed), 'score')} of {len(result.comparison.items):,} differ at p < {UNCONFIRMED_P:g}"
        )
        lines += [f"<details><summary>{head} from their level, as about one in twenty does by chance</summary>", ""]
        lines += [*_changes_table(result, unconfirmed[:MAX_UNCONFIRMED]), "", "</details>", ""]
    if parts_gone:
        lines += [f"<details><summary>Parts without a number tonight: {len(parts_gone)}</summary>", ""]
        lines += [*_gone_table(parts_gone[:MAX_UNCONFIRMED]), "", "</details>", ""]
    if result.drifts:
        lines += ["## Judges", "", *(f"- {_safe(drift.text)}" for drift in result.drifts), ""]
    if result.warnings:
        lines += ["## Notes", "", *(f"- {_safe(warning)}" for warning in result.warnings), ""]
    lines += [_RULE]
    return "\n".join(lines) + "\n"


def row_notes(result: NightlyResult, left_out: Collection[tuple[str, str]], others: Iterable[Pair] = ()) -> list[str]:
    """Return notes on the rows of the joint report that were not measured tonight, `others` too, one sentence each."""
    days: dict[str, list[str]] = {}
    notes = []
    for pair in (*result.pairs, *others):
        name = f"{pair.model} on {pair.benchmark}"
        if (pair.model, pair.benchmark) in left_out:
            notes.append(f"{name}: no row, because its data, prompts or selection changed and it has not run since")
        elif not pair.measured:
            notes.append(f"{name}: no row, because it has not run yet; {pair.state}: {pair.why}")
        elif pair.measured != result.name:
            days.setdefault(pair.measured, []).append(name + (f" ({pair.state})" if pair.state != "unchanged" else ""))
    notes += [drift.text for drift in result.drifts]
    return [*notes, *(f"measured on {_day(day)}: {', '.join(names)}" for day, names in sorted(days.items()))]


def _verdict(result: NightlyResult, gone: Sequence[GoneMetric]) -> str:
    verdicts = []
    if moved := len(result.comparison.alarms) + len(gone):
        verdicts.append(f"{counted(moved, 'number')} moved")
    failed = sorted({pair.model for pair in result.pairs_in("failed")} | set(result.over_budget))
    if failed:
        verdicts.append(f"{counted(len(failed), 'model')} failed")
    return ", ".join(verdicts) or "all well"


def _changes_table(result: NightlyResult, changes: Iterable[Change]) -> list[str]:
    reasons = {(pair.model, pair.benchmark): pair.why for pair in result.pairs}
    heads = ("benchmark", "model", "task", "setting", "score", "was", "is", "samples", "p", "since", "run because")
    rows = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for change in changes:
        key = change.key
        names = (_safe(name) for name in (key.benchmark, key.model, key.task or "all", key.setting or "all", key.score))
        now = "gone" if change.now is None else f"**{change.now:.3f}** {change.direction}"
        p = f"{change.p:.1g} by {change.test}"
        why = _safe(reasons.get((key.model, key.benchmark), ""))
        n = f"{change.n:,}" + (" paired" if change.test != "intervals" and change.now is not None else "")
        cells = (*names, f"{change.before:.3f}", now, n, p, _day(change.since), why)
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _gone_table(metrics: Iterable[GoneMetric]) -> list[str]:
    rows = ["| benchmark | model | task | setting | part | metric | was | is |", "|" + "---|" * 8]
    for gone in metrics:
        bench, task, model, setting, subset, category, metric = (_safe(part) for part in gone.key)
        part = " ".join(name for name in (subset, category) if name) or "all"
        cells = (bench, model, task, setting, part, metric, f"{gone.before:.3f}", "gone")
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _pairs_table(result: NightlyResult, pairs: Iterable[Pair], free_models: Collection[str]) -> list[str]:
    rows = ["| benchmark | model | why | requests | failed | headline | cost |", "|" + "---|" * 7]
    for pair in pairs:
        cost = "-" if pair.cost_usd is None else f"${pair.cost_usd:,.2f}"
        if pair.cost_usd is None and pair.model in free_models:
            cost = "none"
        cells = (pair.benchmark, _safe(pair.model), _safe(pair.why), str(pair.requests), str(pair.failed))
        rows.append("| " + " | ".join((*cells, _headline(result.metrics, pair), cost)) + " |")
    return rows


def _headline(metrics: Iterable[Measured], pair: Pair) -> str:
    """Return the number that stands for the benchmark, as in the report."""
    definition = benchmark(pair.benchmark)
    key = (pair.benchmark, pair.model, definition.headline)
    rows = {
        (row.task, row.setting): row
        for row in metrics
        if row.is_whole and (row.benchmark, row.model, row.metric) == key
    }
    row = rows.get(definition.headline_group(rows) or ("", ""))
    if row is None or row.value is None:
        return "-"
    value = f"{100 * row.value:.1f}%" if row.unit == "fraction" else f"{row.value:.3f}"
    return _safe(f"{value} {row.task} {row.setting}")


def _failures(result: NightlyResult, failed: Iterable[Pair]) -> list[str]:
    rows = [f"- {_pair(pair)}: {_safe(pair.why)}" for pair in failed]
    for model in result.over_budget:
        n = sum(pair.failed for pair in result.pairs if pair.model == model)
        rows.append(f"- {_safe(model)}: more rows failed than allowed ({n}, and the judge's); retried the next night")
    return rows


def _pair(pair: Pair) -> str:
    return f"{_safe(pair.model)} on {pair.benchmark}"


def _dollars(result: NightlyResult, free_models: Collection[str]) -> str:
    unknown = sum(pair.cost_usd is None and pair.model not in free_models for pair in result.pairs_in("ran"))
    return f"${result.cost_usd:,.2f}" + (f" and {counted(unknown, 'pair')} without a known price" if unknown else "")


def _span(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"


def _day(run: str) -> str:
    return f"{run[:4]}-{run[4:6]}-{run[6:8]} {run[9:11]}:{run[11:13]} UTC"


def _safe(text: str) -> str:
    """Escape foreign text for a table: no markup, mentions, references or line ends."""
    escaped = "".join(f"&#{ord(char)};" if char in "\\`|<>*_[]&#~$" else char for char in one_line(text))
    return escaped.replace("@", "@\u200b")
