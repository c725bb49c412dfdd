"""What `power` prints."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from jobs.analysis.power import PowerRow
from jobs.shared.output import print_result
from jobs.shared.tables import table

_POWER = ("what", "models", "n (clusters)", "can show", "rows needed", "clusters")


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
