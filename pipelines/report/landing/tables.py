"""The matrix of models and benchmarks, what they cost, and the picture of both beside people and chance."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, Final

from models.entry_fields import Price
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.figures import Bars, Series
from pipelines.benchmarks.metrics_kernel.labels import metric_label
from pipelines.benchmarks.tables import Style, Table, TableCell, TableRow
from pipelines.plan.run_manifest import RunManifest, Spending
from pipelines.report.compare import headline_tests
from pipelines.report.landing.sentences import Verdict, dollars, doubts, people_words, verdict_of
from pipelines.report.landing.standing import Standing, standing_of, with_leads
from pipelines.report.metrics_file import TABLES, Measured
from pipelines.report.model import ReportData
from pipelines.report.tables.token_efficiency import Efficiency
from pipelines.report.worded import worded_if_any
from pipelines.storage.store import Store

MOST_DRAWN: Final = 8  # models in the picture
_REFERENCES: Final = {"People": "people", "Chance": "chance", "Best published": "the best published model"}
_MATRIX_NOTE: Final = (
    "Percent, with 95% intervals. Bold: the best is significantly better than the next by a paired test over pictures, "
    "clips or scenes (p < 0.05, Holm's correction over the benchmarks). A dash was not measured."
)


def ranked_models(standings: Sequence[Standing]) -> list[str]:
    """Return the models by their mean place in the rankings, the best first."""
    places: dict[str, list[int]] = {}
    for at in standings:
        for place, row in enumerate(at.ranked):
            places.setdefault(row.model, []).append(place)
    unmeasured = dict.fromkeys(row.model for at in standings for row in at.unmeasured if row.model not in places)
    return [*sorted(places, key=lambda model: mean(places[model])), *unmeasured]


def matrix_table(standings: Sequence[Standing], cost: Table | None = None) -> Table | None:
    """Return models by benchmarks with the values of the headlines, and what `cost` says; None without a benchmark."""
    if not standings:
        return None
    spent = {row.label: row.cells[-2:] for row in cost.rows} if cost else {}
    further = ("Seconds an answer", "Cost") if cost else ()
    empty: tuple[TableCell, ...] = (None,) * len(further)
    rows = [
        TableRow(label=model, cells=(*(_cell(at, model) for at in standings), *spent.get(model, empty)))
        for model in ranked_models(standings)
    ]
    references: dict[str, tuple[TableCell, ...]] = {
        "People": tuple(replace(at.people.value, n=None, n_failed=None) if at.people else None for at in standings),
        "Chance": tuple(at.chance.value if at.chance else None for at in standings),
        "Best published": tuple(at.published.value if at.published else None for at in standings),
    }
    compared = [
        TableRow(
            label=label,
            cells=(*cells, *(("",) * len(further))),
            baseline=True,
            origin="human" if label == "People" else "ours",
        )
        for label, cells in references.items()
        if any(cell is not None for cell in cells)
    ]
    published = "; ".join(f"{at.title} {at.published.model}" for at in standings if at.published)
    heading = [TableRow(label="To compare with", origin="heading")] if compared else []
    return Table(
        id="summary",
        title="Models and benchmarks",
        caption=f"The headline of each benchmark by model{_references_text([row.label for row in compared])}.",
        groups=(*((at.title, 1) for at in standings), *((("All", len(further)),) if further else ())),
        columns=(*(metric_label(at.metric) for at in standings), *further),
        rows=(*rows, *heading, *compared),
        style="percent1",
        styles=(*(style_of(at) for at in standings), *(style_of(None) for _ in further)),
        notes=(_MATRIX_NOTE, *_people_notes(standings), *([f"Best published: {published}."] if published else [])),
    )


def _people_notes(standings: Sequence[Standing]) -> list[str]:
    """Return on which rows people's values are, where these are not the models'."""
    notes = [f"{at.title}: {people_words(at)}" for at in standings if at.people and at.people.rows != "same"]
    return [f"People did not answer the same items. {'; '.join(notes)}."] if notes else []


def _references_text(labels: Sequence[str]) -> str:
    """Return what a table or picture has to compare with, in words; '' for nothing."""
    *others, last = [words for label, words in _REFERENCES.items() if label in labels] or [""]
    return f", beside {', '.join(others)}{' and ' if others else ''}{last}" if last else ""


def style_of(at: Standing | None) -> Style:
    """Return how the values of a headline are printed."""
    return "percent1" if at is not None and at.is_percent else "plain"


def _cell(at: Standing, model: str) -> TableCell:
    row = next((row for row in (*at.ranked, *at.unmeasured) if row.model == model), None)
    if row is None:
        return None
    return replace(row.cell, n=None, n_failed=None, best=at.is_led and row is at.ranked[0])


def cost_table(
    efficiency: Sequence[Efficiency],
    models: Mapping[str, Mapping[str, Any]],
    spending: Sequence[Spending],
    evaluated: Collection[str] = (),
) -> Table | None:
    """Return what each model read, wrote and cost, with judges and captioners; None where nobody counted tokens.

    A model of `evaluated` without an answer, whose requests all failed, has its spending too.
    """
    rows = []
    for model in dict.fromkeys(row.model for row in efficiency):
        model_rows = [row for row in efficiency if row.model == model]
        answers, read, written = (
            sum(getattr(row, name) for row in model_rows) for name in ("answers", "prompt_tokens", "output_tokens")
        )
        seconds = f"{sum(row.latency_s for row in model_rows) / answers:.2f}"
        amount = cost_of(model_rows, models)
        price = None if amount is None else dollars(amount)
        guesses = models.get(model, {}).get("engine") == "random"
        rows.append(TableRow(label=model, cells=(answers, read, written, seconds, price), baseline=guesses))
    counted = {row.label for row in rows}
    helpers = dict.fromkeys(name for run in spending for name in run.models if name not in counted)
    for name in helpers:
        spent = [run.models[name] for run in spending if name in run.models]
        amounts = [each.dollars for each in spent if each.dollars is not None]
        read, written = (sum(getattr(each, side) for each in spent) for side in ("input_tokens", "output_tokens"))
        if read:
            cells = (None, read, written, None, dollars(sum(amounts)) if amounts else None)
            helps = name not in evaluated
            rows.append(TableRow(label=f"{name} (judge or captioner)" if helps else name, cells=cells, baseline=helps))
    return worded_if_any("cost", rows)


def cost_of(efficiency: Sequence[Efficiency], models: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the dollars of answers by the prices of their models; None where none has a price."""
    amounts = [
        price.dollars(row.prompt_tokens, row.output_tokens, row.cached_tokens, row.cache_write_tokens)
        for row in efficiency
        if (price := _price(models.get(row.model, {}))) is not None
    ]
    return sum(amounts) if amounts else None


def _price(fields: Mapping[str, Any]) -> Price | None:
    """Return what a token was billed with, by a model's entry in `run.json`."""
    if not fields.get("price"):
        return None
    price = Price.model_validate(fields["price"])
    default = ModelSpec.model_fields["batch_price_factor"].default
    return price.scaled(float(fields.get("batch_price_factor", default))) if fields.get("batch") else price


def standing_figure(standings: Sequence[Standing]) -> Bars | None:
    """Return the intervals of all models by benchmark with people, chance and the best published; None without any."""
    drawn = [at for at in standings if at.is_percent and (at.ranked or at.baselines)]
    models = [model for model in ranked_models(drawn) if any(row.model == model for at in drawn for row in at.ranked)]
    if not drawn or not models:
        return None
    shown = models[:MOST_DRAWN]
    values = {
        model: [next((row.cell for row in at.ranked if row.model == model), None) for at in drawn] for model in shown
    }
    people = tuple(at.people.value.value if at.people else None for at in drawn)
    published = tuple(at.published.value if at.published else None for at in drawn)
    every = (
        Series(label="Chance", values=tuple(at.chance.value if at.chance else None for at in drawn), baseline=True),
        Series(label="People", values=people, origin="human", baseline=True),
        Series(label="Best published", values=published, origin="published"),
    )
    references = tuple(series for series in every if any(value is not None for value in series.values))
    more = len(models) - len(shown)
    return Bars(
        id="summary_figure",
        title=f"Every model with its 95% interval{_references_text([series.label for series in references])}",
        categories=tuple(at.title for at in drawn),
        series=(*(Series.of(model, numbers) for model, numbers in values.items()), *references),
        y_label="Headline of each benchmark",
        horizontal=True,
        dots=True,
        notes=(
            *_people_notes(drawn),
            *([f"The {MOST_DRAWN} best models; the matrix has {more} more."] if more else []),
        ),
    )


def build_standings(
    out: Store, run: RunManifest, numbers: Sequence[Measured], efficiency: Sequence[Efficiency]
) -> tuple[Standing, ...]:
    """Return the standing of the models on each benchmark; of the first two with the paired test of their scores."""
    standings = []
    for name in sorted({number.benchmark for number in numbers}):
        table_numbers = [number for number in numbers if number.benchmark == name and number.source == TABLES]
        cost = cost_of([row for row in efficiency if row.benchmark == name], run.models)
        standings.append(replace(standing_of(benchmark(name), table_numbers, run.baselines), dollars=cost))

    return with_leads(standings, headline_tests(out) if any(len(at.ranked) > 1 for at in standings) else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The answers of a report."""

    verdicts: Sequence[Verdict]
    judges: Sequence[str]
    doubts: Sequence[str]
    matrix: Table | None
    figure: Bars | None


def summary_of(report: ReportData) -> Summary:
    """Return the answers of a report."""
    standings = report.standings
    metrics = [row for row in report.metrics if row.model not in report.baselines]
    counts = [count for count in report.counts if count.model not in report.baselines]
    return Summary(
        verdicts=[verdict_of(at, counts) for at in standings],
        judges=[f"{judging}." for judging in report.judgings if not judging.is_doubtful],
        doubts=[*doubts(standings, metrics, counts, report.judgings), *report.warnings],
        matrix=matrix_table(standings, report.cost),
        figure=standing_figure(standings),
    )
