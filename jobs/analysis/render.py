"""What `gate` and `power` print."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from jobs.analysis.power import PowerRow
from jobs.shared.output import print_result
from jobs.shared.tables import table
from pipelines.decisions.gate import GateResult, LineResult

_GATE = ("verdict", "benchmark", "model", "number", "rule", "value", "95%", "n", "failed", "p, Holm", "rows needed")
_POWER = ("what", "models", "n (clusters)", "can show", "rows needed", "clusters")
_STRESS = ("benchmark", "cell", "condition", "moved answers", "change of share right", "pairs")


def show_gate(result: GateResult, *, as_json: bool) -> None:
    """Print a decision: the lines, then the decision."""
    lines = table(_GATE, [_line(line) for line in result.lines])
    noted = (line for line in result.lines if line.note)
    notes = (f"{line.benchmark} {line.model} {line.task} {line.setting} {line.metric}: {line.note}" for line in noted)
    print_result(as_json, asdict(result), lines, *notes, "", result.decision)


def _line(line: LineResult) -> list[str]:
    number = " ".join(filter(None, (line.task, line.setting, line.subset, line.category, line.metric)))
    ends = "-" if line.ci_low is None or line.ci_high is None else f"[{line.ci_low:.4g}, {line.ci_high:.4g}]"
    value = "-" if line.value is None else f"{line.value:.4g}"
    return [
        *(line.verdict, line.benchmark, line.model, number, line.rule),
        value if line.baseline is None else f"{line.value:+.4g} to {line.baseline:.4g}",
        *(ends, f"{line.n:,}", f"{line.n_failed:,}", "-" if line.p_holm is None else f"{line.p_holm:.2g}"),
        "-" if line.rows_needed is None else f"{line.rows_needed:,}",
    ]


def show_power(rows: Sequence[PowerRow], difference: float, *, as_json: bool) -> None:
    """Print what the numbers of an output can show."""
    text = (
        f"Rows and clusters to find a difference of {100 * difference:g} points (of a fraction) in 80% of cases, "
        "two-sided at 5%, after Holm's correction for all pairs; in brackets, what the uncertainty of the spread "
        "allows. Two models: as a pair on the same rows; one model: against another of the same spread, on other rows."
    )
    if not rows:
        text = "No value has an interval, from which this follows: it takes two clips, pictures or scenes with answers."
    print_result(
        as_json, [asdict(row) for row in rows], table(_POWER, [_power(row) for row in rows]), text, *_power_notes(rows)
    )


def _power_notes(rows: Sequence[PowerRow]) -> Iterator[str]:
    """Yield what is not known of some rows, and what repeats bring."""
    yield from dict.fromkeys(f"note: {row.benchmark} {row.task} {row.setting}: {row.note}" for row in rows if row.note)
    for row in rows:
        if by_repeats := row.clusters_needed_by_repeats:
            counts = ", ".join(f"{clusters:,} with {repeats}" for repeats, clusters in by_repeats.items())
            pair = f"{row.model} / {row.other} {row.task} {row.setting}"
            yield f"{pair}: clusters needed by answers to a question: {counts}"


def stress_lines(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what `stress` prints after a run: what flips under each condition."""
    if cells:
        yield table(_STRESS, [_stressed(cell) for cell in cells])
        yield "Paired by question; 95% over clusters. Models and pairs: report/stress.html and report/stress.json."


def _stressed(cell: Mapping[str, Any]) -> list[str]:
    return [
        *(cell["benchmark"], f"{cell['task']} {cell['setting']}", cell["condition"]),
        *("-" if (e := cell[name]) is None else _with_ends(e) for name in ("moved", "change")),
        cell["conclusion"],
    ]


def _with_ends(estimate: Mapping[str, Any]) -> str:
    low, high = estimate["ci_low"], estimate["ci_high"]
    return f"{estimate['value']:.3f}" + ("" if low is None or high is None else f" [{low:.3f}, {high:.3f}]")


def _power(row: PowerRow) -> list[str]:
    times, digits = (100, 1) if row.is_percent else (1, 4)
    return [
        f"{row.benchmark} {row.task} {row.setting} {row.metric}",
        f"{row.model} / {row.other}" if row.other else row.model,
        f"{row.n:,} ({row.clusters:,})",
        "-" if row.detectable is None else f"{times * row.detectable:.{digits}f}",
        _range(row.rows_needed, row.rows_needed_low, row.rows_needed_high),
        _range(row.clusters_needed, row.clusters_needed_low, row.clusters_needed_high),
    ]


def _range(value: int | None, low: int | None, high: int | None) -> str:
    return "-" if value is None or low is None or high is None else f"{value:,} [{low:,}, {high:,}]"
