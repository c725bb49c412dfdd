"""A sentence a benchmark, and what is to be doubted, in words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import pyarrow.compute as pc

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.metrics_kernel.labels import metric_label
from pipelines.benchmarks.metrics_kernel.rows import NO_JUDGE
from pipelines.clean_text import cut, one_line
from pipelines.plan.run_manifest import RunManifest
from pipelines.predict.records import TaskCount
from pipelines.rendering.table_layout import format_number
from pipelines.report.compare import CANNOT_CONCLUDE
from pipelines.report.landing.standing import Standing
from pipelines.report.metrics_file import Measured
from pipelines.report.portable import portable_text
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A model whose verdicts an output has about the answers to one benchmark."""

    name: str
    version: str = ""  # the model at its maker, and its revision, where they are known
    verdicts: int
    is_coin: bool = False  # whether it is the baseline that guesses

    def __str__(self) -> str:
        facts = ("tosses a coin" if self.is_coin else self.version, f"{self.verdicts:,} verdicts")
        return f"{self.name} ({', '.join(filter(None, facts))})"


@dataclass(frozen=True, slots=True)
class Judging:
    """Who judged the answers to one benchmark, and the metrics that rest on it; no judge where none was given."""

    benchmark: str
    title: str
    metrics: tuple[str, ...]
    judges: tuple[Judge, ...] = ()

    @property
    def is_coin(self) -> bool:
        """Whether the judge that gives the metrics guesses."""
        return bool(self.judges) and self.judges[0].is_coin

    @property
    def is_doubtful(self) -> bool:
        """Whether the metrics mean nothing or are missing."""
        return self.is_coin or not self.judges

    def __str__(self) -> str:
        judges = f"judged by {', '.join(map(str, self.judges))}" if self.judges else "no judge (--judge NAME)"
        so = ", so these numbers mean nothing" if self.is_coin else "" if self.judges else ", so not measured"
        return f"{self.title}: {judges}{so}: {', '.join(map(metric_label, self.metrics))}"


def judgings_of(out: Store, run: RunManifest, numbers: Sequence[Measured]) -> tuple[Judging, ...]:
    """Return who judged each benchmark that has judged metrics, and what was not measured for want of a judge."""
    judged: dict[tuple[str, bool], dict[str, None]] = {}
    for row in numbers:
        is_measured = row.value is not None
        is_stated = row.is_whole and (is_measured or row.note.startswith(NO_JUDGE))
        if is_stated and row.metric in benchmark(row.benchmark).judged_metrics:
            judged.setdefault((row.benchmark, is_measured), {})[row.metric] = None
    judgings = []
    for (name, is_measured), metrics in judged.items():
        judges = tuple(_judges(out, run, name)) if is_measured else ()
        if judges or not is_measured:
            judgings.append(Judging(name, benchmark(name).title, tuple(metrics), judges))
    return tuple(judgings)


def _judges(out: Store, run: RunManifest, name: str) -> Iterator[Judge]:
    """Yield the judges with a verdict, the one that gives the metrics first."""
    for model in run.sweep.judge.split(",") if run.sweep.judge else run.models:
        parts = iter_parts(out, part_folder("judgements", name, model), ["status"])
        verdicts = sum(pc.sum(pc.equal(table["status"], "ok")).as_py() or 0 for _, table in parts)
        if verdicts:
            fields = run.models.get(model, {})
            version = (str(fields.get("model") or ""), str(fields.get("revision") or "")[:12])
            yield Judge(
                name=model,
                version=portable_text(" ".join(filter(None, version)), out.uri),
                verdicts=verdicts,
                is_coin=model in run.baselines,
            )


FEW_ROWS: Final = 100  # below so many rows a benchmark's numbers are said to be few
UNREADABLE: Final = metric_label("unreadable")
MANY_UNREADABLE: Final = 0.05
MOST_OF_ERROR: Final = 200  # characters of an error's message


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a report says of a benchmark in one line."""

    benchmark: str
    title: str
    claim: str
    facts: tuple[str, ...]
    measure: str
    is_led: bool  # whether the first is significantly better than the next

    @property
    def text(self) -> str:
        """The line without marks."""
        return f"{self.title}: {'; '.join((self.claim, *self.facts))} ({self.measure})."


def verdict_of(at: Standing, counts: Sequence[TaskCount] = ()) -> Verdict:
    """Return the line of a benchmark; `counts` say why requests failed."""
    facts = []
    if people := people_words(at):
        facts.append(people)
    if at.chance is not None:
        facts.append(" ".join(filter(None, (f"chance {number(at, at.chance.value)}", str(at.chance)))))
    if at.dollars is not None:
        facts.append(dollars(at.dollars))
    return Verdict(
        benchmark=at.benchmark,
        title=at.title,
        claim=_claim(at, counts),
        facts=tuple(facts),
        measure=at.where,
        is_led=at.is_led,
    )


def people_words(at: Standing) -> str:
    """Return people's value, with the rows that it is of if the first model's are others; '' if there is none."""
    people = at.people
    if people is None or people.value.value is None:
        return ""
    value = f"people {number(at, people.value.value)}"
    if people.rows == "same" or not at.ranked:
        return value
    if people.rows == "other" or people.model is None or people.model.value is None:
        return f"{value} on other items"
    count = "" if people.value.n is None else f"{people.value.n:,} "
    rows = f"{count}items that people answered" if people.annotators == 1 else f"items of {count}answers of people"
    return f"on the {rows}: {at.ranked[0].model} {number(at, people.model.value)}, {value}"


def number(at: Standing, value: float) -> str:
    """Return a value of a headline as people read it."""
    return format_number(value, "percent1" if at.is_percent else "plain")


def dollars(value: float) -> str:
    """Return an amount, to the cent from a cent on, with two digits below; never with an exponent."""
    return f"${value:,.2f}" if value >= 0.01 or not value else f"${Decimal(f'{value:.2g}'):f}"


def _claim(at: Standing, counts: Sequence[TaskCount]) -> str:
    if not at.ranked:
        if failed := _all_failed(at, counts):
            return f"not measured: {failed}"
        reasons = dict.fromkeys(row.note or "no reason was given" for row in at.unmeasured)
        return f"not measured ({'; '.join(reasons)})" if reasons else "no model was run in the headline's setting"
    first = at.ranked[0]
    value = f"{first.model} {number(at, first.value or 0.0)}{_interval(at, first.ci_low, first.ci_high)}"
    doubt = ", not above chance" if at.beats_chance is False else ""
    return f"{value}{_comparison(at) if len(at.ranked) > 1 else ''}{doubt}"


def _all_failed(at: Standing, counts: Sequence[TaskCount]) -> str:
    """Return that all requests in the headline's setting failed, and the first reason; '' if some did not."""
    models = {row.model for row in at.unmeasured}
    headline_counts = [count for count in counts if (count.benchmark, count.task, count.setting) == at.group]
    asked = [count for count in headline_counts if count.model in models and count.requests]
    if not asked or any(count.error < count.requests for count in asked):
        return ""
    total = sum(count.error for count in asked)
    return f"{'the request' if total == 1 else f'all {total:,} requests'} failed{_first_error(asked)}"


def _first_error(counts: Iterable[TaskCount]) -> str:
    message = next((count.first_error for count in counts if count.first_error), "")
    return f" (first: {cut(one_line(message), MOST_OF_ERROR)})" if message else ""


def _comparison(at: Standing) -> str:
    """Return how the first stands to the second: by their values, and on the rows of the test if these are others."""
    (first, second), lead = at.ranked[:2], at.lead
    rival = f"{second.model} {number(at, second.value or 0.0)}"
    if lead is None:
        return f" before {rival}, which could not be tested"
    lead = lead.flipped() if at.is_lower_better else lead  # above 0 if the first is better
    gap = number(at, lead.delta) + _interval(at, *(lead.shown_ends or (None, None)))
    whole = number(at, abs((first.value or 0.0) - (second.value or 0.0)))
    has_other_rows = whole != number(at, lead.delta)
    if has_other_rows:
        gap = f"{whole}; on the {lead.n:,} rows that both answered, {gap}"
    if at.is_led:
        return f" leads {rival if has_other_rows else second.model} by {gap}"
    if lead.verdict == CANNOT_CONCLUDE:
        return f" before {rival} by {gap}: {lead.clusters:,} pictures, clips or scenes are too few to tell"
    return f" before {rival} by {gap}, not shown"


def _interval(at: Standing, low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{number(at, low)}, {number(at, high)}]"


def doubts(
    standings: Sequence[Standing],
    numbers: Sequence[Measured],
    counts: Sequence[TaskCount],
    judgings: Sequence[Judging] = (),
) -> list[str]:
    """Return what makes numbers of this report less worth than they look, a sentence each, the gravest first."""
    titles = {at.benchmark: at.title for at in standings}
    return [
        *(str(judging) for judging in judgings if judging.is_doubtful),
        *_unanswered(titles, counts),
        *_unreadable(titles, numbers),
        *_guesses(standings),
        *_few(standings),
        *_stopped(standings),
    ]


def _unanswered(titles: dict[str, str], counts: Iterable[TaskCount]) -> Iterator[str]:
    """Yield the models with requests that have no answer, with their numbers by benchmark."""
    totals: dict[str, Counter[tuple[str, str]]] = {}
    counts_by_model: dict[str, list[TaskCount]] = {}
    for count in counts:
        if count.benchmark in titles:
            states = {"failed": count.error, "excluded": count.excluded, "not run": count.missing}
            named = {(titles[count.benchmark], state): number for state, number in states.items() if number}
            totals.setdefault(count.model, Counter()).update({**named, (titles[count.benchmark], ""): count.requests})
            counts_by_model.setdefault(count.model, []).append(count)
    for model, total in totals.items():
        parts = [
            f"{title} {value:,} of {total[title, '']:,} {state}" for (title, state), value in total.items() if state
        ]
        if parts:
            yield f"{model}, requests without an answer: {', '.join(parts)}{_first_error(counts_by_model[model])}"


def _unreadable(titles: dict[str, str], numbers: Iterable[Measured]) -> Iterator[str]:
    """Yield the models of whose answers many could not be read, with the worst share of each benchmark."""
    worst: dict[str, dict[str, float]] = {}
    for row in numbers:
        if metric_label(row.metric) == UNREADABLE and row.is_whole and row.value and row.n and row.benchmark in titles:
            share = row.value / row.n if row.unit == "count" else row.value
            model_shares = worst.setdefault(row.model, {})
            model_shares[titles[row.benchmark]] = max(share, model_shares.get(titles[row.benchmark], 0.0))
    for model, shares in worst.items():
        parts = [f"{title} {100 * share:.0f}%" for title, share in shares.items() if share >= MANY_UNREADABLE]
        if parts:
            yield f"{model}, answers that cannot be read, in the worst setting: {', '.join(parts)}"


def _guesses(standings: Iterable[Standing]) -> Iterator[str]:
    """Yield the benchmarks on which no model is above chance."""
    titles = [at.title for at in standings if at.beats_chance is False]
    if titles:
        yield f"No model is above chance, so differences between models say nothing: {', '.join(titles)}"


def _few(standings: Iterable[Standing]) -> Iterator[str]:
    few = {at.title: count for at in standings if at.ranked and (count := _independent(at.ranked[0])) < FEW_ROWS}
    if few:
        rows = ", ".join(f"{title} {n:,}" for title, n in few.items())
        yield f"Few rows, or few clips, pictures or scenes that rows share, so wide intervals: {rows}"


def _independent(row: Measured) -> int:
    """Return the rows, or as many clusters of equal size as the interval of a number is worth."""
    return row.n if row.ci_df is None else min(row.n, round(row.ci_df) + 1)


def _stopped(standings: Iterable[Standing]) -> Iterator[str]:
    """Yield what runs that stopped early say of the whole set; printed intervals are of questions like these."""
    for at in standings:
        parts = [
            f"{row.model}{_interval(at, row.set_ci_low, row.set_ci_high)}"
            for row in at.ranked
            if row.set_ci_low is not None and row.set_ci_high is not None
        ]
        if parts:
            yield (
                f"{at.title} stopped early; all its questions together would give, with 95% at every stop: "
                f"{', '.join(parts)}. Other intervals are of questions like these"
            )
