"""Our numbers next to the published ones of the same models, with a verdict by a fixed rule.

- `reproduced`: our whole 95% interval lies within a margin of the published value.
- `consistent`: the published value lies in our interval, which is wider; without an interval, both are equal within
  the paper's rounding.
- `different`: neither.
- `not comparable`: the run differs from the paper in what `comparability` lists, or our number was not measured.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final, TypeAlias

from pydantic import TypeAdapter, ValidationError

from pipelines.benchmarks.published import printed_steps
from pipelines.benchmarks.records import PublishedValue, is_person
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.validation import format_validation_error
from pipelines.errors import StoreError, UsageError
from pipelines.json_records import dump_json
from pipelines.plan.run_manifest import RunManifest
from pipelines.plan.run_spec import scorers_by_kind
from pipelines.plan.selection import check_names
from pipelines.report.comparability import Conditions, published_names, published_settings
from pipelines.report.entry_results import EntryResults
from pipelines.report.metrics_file import Measured, MetricKey
from pipelines.report.model import VERDICTS, ReproductionResult, Verdict
from pipelines.report.worded import worded_if_any
from pipelines.storage.store import Store, is_as_published

PATH: Final = "report/reproduction.json"
MARGIN: Final = 0.03
"""Greatest distance of a reproduced value from the published one: of a share, of a count in shares of its rows."""
_EPSILON: Final = 1e-9  # sums of floats in another order

_Index: TypeAlias = Mapping[tuple[str, str, MetricKey], Measured]  # by benchmark, model and what it measures


def reproduction_results(
    run: RunManifest, reduced: Sequence[EntryResults], judges: Mapping[str, str]
) -> list[ReproductionResult]:
    """Return the results of all models that have published rows, in the order of the papers.

    `judges` maps benchmarks to the judge of their verdicts, by its name at its maker.
    """
    rows = [row for results in reduced for row in results.metrics]
    index = {(row.benchmark, row.model, row.key): row for row in rows}
    results: list[ReproductionResult] = []
    for conditions in _conditions(run, reduced, judges, rows):
        name, model = conditions.entry.benchmark, conditions.entry.model
        names = published_names(model, conditions.spec, name)
        publication = conditions.entry.definition.publication
        results += _model_results(conditions, model, {*names} - {*publication.joint.values()}, index)
        groups = {group: text for group, text in publication.joint.items() if text in names}
        run_of = model.partition(" run ")[0]
        averaged = publication.averaged.items()
        groups |= {group: text for group, text in averaged if group.partition(", mean of ")[0] == run_of != model}
        for group, text in groups.items():
            results += _model_results(conditions, group, {text}, index)
    return list(dict.fromkeys(results))


def _conditions(
    run: RunManifest, reduced: Sequence[EntryResults], judges: Mapping[str, str], rows: Sequence[Measured]
) -> Iterator[Conditions]:
    counts = {
        (count.benchmark, count.model, count.task, count.setting): count
        for results in reduced
        for count in results.counts
    }
    prompts = {(count.benchmark, count.model): results.prompts for results in reduced for count in results.counts}
    for entry in run.entries:
        entry_key = (entry.benchmark, entry.model)
        if is_person(entry.model) or entry_key not in prompts:
            continue
        foreign = entry.definition.publication.foreign_items
        counted = [row for row in rows if (row.benchmark, row.model) == entry_key and row.metric in foreign]
        yield Conditions(
            entry=entry,
            spec=run.models.get(entry.model, {}),
            judge=judges.get(entry.benchmark, ""),
            scorers={kind: scorer.model for kind, scorer in scorers_by_kind(run.sweep.scorers).items()},
            counts={key[2:]: count for key, count in counts.items() if key[:2] == entry_key},
            prompts=prompts[entry_key],
            foreign_items=[foreign[row.metric] for row in counted if row.value],
        )


def _model_results(
    conditions: Conditions, model: str, names: Iterable[str], index: _Index
) -> Iterator[ReproductionResult]:
    name = conditions.entry.benchmark
    definition = conditions.entry.definition
    publication, steps = definition.publication, printed_steps(definition.published)
    limited = published_settings(conditions.entry.model, conditions.spec, name)
    for printed in definition.published:
        if printed.model not in names or printed.value is None:
            continue
        if printed.setting not in limited.get(printed.model, {printed.setting}):
            continue  # of another model under the same name
        usual = publication.settings.get(printed.setting, printed.setting)
        metric = publication.metrics.get(printed.metric, printed.metric)
        half_step = float(steps[printed.table, printed.metric]) / 2
        for setting in (usual, *publication.same_settings.get(usual, ())):
            key = MetricKey(metric, printed.task, setting, printed.subset, printed.category)
            row = index.get((name, model, key))
            if row is not None:
                yield _result(conditions, printed, row, half_step)


def _result(conditions: Conditions, printed: PublishedValue, row: Measured, half_step: float) -> ReproductionResult:
    assert printed.value is not None
    reasons = list(conditions.reasons(printed, row.setting))
    if row.value is None:
        reasons.append(f"not measured: {row.note or 'no reason was given'}")
    result = ReproductionResult(
        benchmark=conditions.entry.benchmark,
        model=row.model,
        published_model=printed.model,
        setting=row.setting,
        published_setting=printed.setting,
        **{name: getattr(printed, name) for name in ("table", "task", "subset", "category", "metric")},
        ours=row.value,
        ci_low=row.ci_low,
        ci_high=row.ci_high,
        n=row.n,
        unit=row.unit,
        published=printed.value,
        rounding=half_step,
        difference=None if row.value is None else float(row.value) - printed.value,
        verdict="not comparable",
        reasons=tuple(reasons),
    )
    return replace(result, verdict=verdict_within(result, MARGIN))


def verdict_within(result: ReproductionResult, margin: float) -> Verdict:
    """Return the verdict on a result by a margin around the published value."""
    if result.reasons or result.difference is None:
        return "not comparable"
    is_equal = abs(result.difference) <= result.rounding + _EPSILON
    if result.ci_low is None or result.ci_high is None:
        return "consistent" if is_equal else "different"
    reach = (margin * result.n if result.unit == "count" else margin) + _EPSILON
    if result.published - reach <= result.ci_low and result.ci_high <= result.published + reach:
        return "reproduced"
    is_inside = result.ci_low - _EPSILON <= result.published <= result.ci_high + _EPSILON
    return "consistent" if is_inside or is_equal else "different"


def reproduced_rule(margin: float = MARGIN) -> str:
    """Return what the verdicts mean, for readers."""
    return (
        f"Reproduced: our whole 95% interval lies within {margin:g} of the published value (of a count: of its rows). "
        "Consistent: the published value lies in our interval, which is wider. Different: neither. Items are known by "
        "their number only."
    )


def count_verdicts(results: Iterable[ReproductionResult]) -> Counter[Verdict]:
    """Count the results by verdict."""
    return Counter(result.verdict for result in results)


def reproduction_line(results: Sequence[ReproductionResult]) -> str:
    """Return `31 of 48 cells reproduced, 10 consistent, 7 different`, and why others are not comparable."""
    counts = count_verdicts(results)
    comparable = counts.total() - counts["not comparable"]
    line = f"{counts['reproduced']} of {comparable} cells reproduced"
    line += "".join(f", {counts[verdict]} {verdict}" for verdict in ("consistent", "different") if counts[verdict])
    kinds = Counter(
        kind
        for result in results
        if result.verdict == "not comparable"
        for kind in dict.fromkeys(reason.partition(":")[0] for reason in result.reasons)
    )
    why = ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common())
    return f"{line}; {counts['not comparable']:,} not comparable ({why})" if why else line


def reproduction_json(results: Iterable[ReproductionResult]) -> bytes:
    """Return the results as the file that `load_reproduction` reads."""
    lines = ",\n".join(dump_json(asdict(result)) for result in results)
    return f"[\n{lines}\n]\n".encode() if lines else b"[]\n"


def load_reproduction(out: Store, models: Sequence[str] = (), margin: float = MARGIN) -> list[ReproductionResult]:
    """Load the results of an output's report, of some models or of all, with the verdicts by a margin.

    Raises UsageError where there is no report of this version or no such model, StoreError for a damaged file.
    """
    try:
        content = out.get(PATH)
    except FileNotFoundError:
        raise UsageError(
            f"{out.uri}: no {PATH}; is this the --out of a run? `vlmsweep report` with its flags writes the file"
        ) from None
    try:
        results = TypeAdapter(list[ReproductionResult]).validate_json(content)
    except ValidationError as error:
        problem = format_validation_error(error)
        raise StoreError(f"{out.uri}/{PATH}: damaged ({problem}); `vlmsweep report` writes it again") from error
    if not is_as_published(out, PATH, content):
        problem = "it is not what the last report wrote"
        raise StoreError(f"{out.uri}/{PATH}: damaged ({problem}); `vlmsweep report` writes it again")
    for model in models:
        check_names("model with published numbers", [model], sorted({result.model for result in results}))
    chosen = [result for result in results if not models or result.model in models]
    return [replace(result, verdict=verdict_within(result, margin)) for result in chosen]


def summary_table(results: Mapping[str, Sequence[ReproductionResult]], titles: Mapping[str, str]) -> Table | None:
    """Return one row per paper with its results by verdict; None where no model has a published row."""
    rows = []
    for name, paper_rows in results.items():
        counts = count_verdicts(paper_rows)
        numbers = (len({result.model for result in paper_rows}), *(counts[verdict] for verdict in VERDICTS))
        rows.append(TableRow(label=titles[name], cells=(reproduction_line(paper_rows), *numbers)))
    return worded_if_any("reproduction", rows, rule=reproduced_rule())


def results_table(name: str, title: str, results: Sequence[ReproductionResult]) -> Table | None:
    """Return one row per result; None where there are none."""
    rows, line = [TableRow(label=result.model, cells=_cells(result)) for result in results], reproduction_line(results)
    return worded_if_any("reproduction_cells", rows, name=name, title=title, line=line, rule=reproduced_rule())


def _cells(result: ReproductionResult) -> tuple[TableCell, ...]:
    setting = result.setting
    if result.published_setting not in (setting, ""):
        setting = f"{setting} ({result.published_setting})"
    ours = TableValue(value=result.ours, low=result.ci_low, high=result.ci_high, n=result.n)
    result_key = (
        result.table,
        result.metric,
        result.task,
        setting,
        result.subset,
        result.category,
        result.published_model,
    )
    return (result.verdict, ours, result.published, result.difference, *result_key, "; ".join(result.reasons))


def own_rows_table(name: str, title: str, results: Sequence[ReproductionResult]) -> Table | None:
    """Return what our own rows could explain of the different results, a row each; None if there are none."""
    rows = []
    for result in results:
        number = " ".join(filter(None, (result.metric, result.task, result.setting, result.subset, result.category)))
        numbers = (number, result.ours, result.published)
        rows += [TableRow(label=result.model, cells=(text, *numbers)) for text in result.own_rows]
    return worded_if_any("own_rows", rows, name=name, title=title)
