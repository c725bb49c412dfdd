"""A sentence a benchmark, and what is to be doubted, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.benchmarks.metrics_kernel.labels import metric_label
from pipelines.benchmarks.metrics_kernel.rows import NO_JUDGE
from pipelines.predict.records import CellCount
from pipelines.rendering.table_layout import format_number
from pipelines.report.compare import CANNOT_CONCLUDE
from pipelines.report.landing.standing import Standing
from pipelines.report.measured import Measured

FEW_ROWS: Final = 100
"""Below so many rows a benchmark's numbers are said to be few."""
UNREADABLE: Final = metric_label("unreadable")
MANY_UNREADABLE: Final = 0.05
_EN_DASH: Final = "\N{EN DASH}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a report says of a benchmark in one line."""

    benchmark: str
    title: str
    claim: str
    facts: tuple[str, ...]
    measure: str

    @property
    def text(self) -> str:
        """The line without marks."""
        return f"{self.title}: {'; '.join((self.claim, *self.facts))} ({self.measure})."


def verdict_of(at: Standing) -> Verdict:
    """Return the line of a benchmark."""
    facts = []
    if at.people is not None and at.people.value is not None:
        facts.append(f"people {number(at, at.people.value)}")
    if at.chance is not None:
        facts.append(f"chance {number(at, at.chance)}")
    if at.published is not None:
        facts.append(f"best published {number(at, at.published.value)} ({at.published.model})")
    if at.dollars is not None:
        facts.append(dollars(at.dollars))
    return Verdict(benchmark=at.benchmark, title=at.title, claim=_claim(at), facts=tuple(facts), measure=at.where)


def number(at: Standing, value: float) -> str:
    """Return a value of a headline as people read it."""
    return format_number(value, "percent1" if at.is_percent else "plain")


def dollars(value: float) -> str:
    """Return an amount, to the cent from a cent on."""
    return f"${value:,.2f}" if value >= 0.01 or not value else f"${value:.2g}"


def _claim(at: Standing) -> str:
    if not at.ranked:
        reasons = dict.fromkeys(row.note or "no reason was given" for row in at.unmeasured)
        return f"not measured ({'; '.join(reasons)})" if reasons else "no model was run in the headline's setting"
    first = at.ranked[0]
    value = f"{number(at, first.value or 0.0)}{_interval(at, first.ci_low, first.ci_high)}"
    doubt = {False: ", not above chance", True: "", None: ""}[at.beats_chance]
    if len(at.ranked) == 1:
        return f"{first.model} reaches {value}{doubt}"
    return f"{first.model} {_comparison(at)}, at {value}{doubt}"


def _comparison(at: Standing) -> str:
    second, lead = at.ranked[1].model, at.lead
    if lead is None:
        return f"is before {second}, by a difference that could not be tested"
    if lead.verdict == "equal":
        return f"equals {second}"
    unit = " points" if at.is_percent else ""
    gap = f"{number(at, abs(lead.delta))}{unit}{_gap_interval(at)}"
    if at.is_led:
        return f"leads by {gap} before {second}"
    if lead.verdict == CANNOT_CONCLUDE:
        return f"is before {second} by {gap}, and {lead.clusters:,} pictures, clips or scenes are too few to tell"
    return f"is before {second} by {gap}, which is not significant"


def _gap_interval(at: Standing) -> str:
    lead = at.lead
    if lead is None or lead.ci_low is None or lead.ci_high is None:
        return ""
    ends = (lead.ci_low, lead.ci_high) if lead.delta > 0 else (-lead.ci_high, -lead.ci_low)
    return _interval(at, *ends)


def _interval(at: Standing, low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{number(at, low)}, {number(at, high)}]"


def doubts(standings: Sequence[Standing], numbers: Sequence[Measured], counts: Sequence[CellCount]) -> list[str]:
    """Return what makes numbers of this report less worth than they look, a sentence each, the gravest first."""
    titles = {at.benchmark: at.title for at in standings}
    return [
        *_missing(titles, numbers),
        *_unanswered(titles, counts),
        *_unreadable(titles, numbers),
        *_few(standings),
    ]


def _missing(titles: dict[str, str], numbers: Iterable[Measured]) -> Iterator[str]:
    """Yield the metrics that have no value for want of a judge."""
    without_judge: dict[str, dict[str, None]] = {}
    for row in numbers:
        if row.value is None and row.is_whole and row.note.startswith(NO_JUDGE) and row.benchmark in titles:
            without_judge.setdefault(titles[row.benchmark], {})[metric_label(row.metric)] = None
    for title, metrics in without_judge.items():
        yield f"{title}: no judge (--judge NAME), so not measured: {', '.join(metrics)}"


def _unanswered(titles: dict[str, str], counts: Iterable[CellCount]) -> Iterator[str]:
    totals: dict[tuple[str, str], list[int]] = {}
    for count in counts:
        total = totals.setdefault((count.benchmark, count.model), [0, 0, 0, 0])
        for index, value in enumerate((count.requests, count.error, count.excluded, count.missing)):
            total[index] += value
    for (name, model), (requests, *states) in totals.items():
        words = [
            f"{value:,} {state}"
            for value, state in zip(states, ("failed", "excluded", "not run"), strict=True)
            if value
        ]
        if words and name in titles:
            yield f"{titles[name]}, {model}: of {requests:,} requests {', '.join(words)}"


def _unreadable(titles: dict[str, str], numbers: Iterable[Measured]) -> Iterator[str]:
    """Yield the models of whose answers many could not be read, each with its worst task and setting."""
    worst: dict[tuple[str, str], tuple[float, Measured]] = {}
    for row in numbers:
        if metric_label(row.metric) == UNREADABLE and row.is_whole and row.value and row.n and row.benchmark in titles:
            share = row.value / row.n if row.unit == "count" else row.value
            key = (row.benchmark, row.model)
            if share >= MANY_UNREADABLE and share > worst.get(key, (0.0, row))[0]:
                worst[key] = share, row
    for (name, model), (share, row) in worst.items():
        where = ", ".join(filter(None, (row.task, row.setting)))
        yield f"{titles[name]}, {model}: up to {100 * share:.0f}% of its answers cannot be read ({where})"


def _few(standings: Iterable[Standing]) -> Iterator[str]:
    few = {at.title: at.ranked[0].n for at in standings if at.ranked and at.ranked[0].n < FEW_ROWS}
    if few:
        rows = ", ".join(f"{title} {n:,}" for title, n in few.items())
        yield f"Few rows, so wide intervals: {rows}"
