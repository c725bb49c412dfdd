"""Tables of judges: what people's labels say of them; of several, metrics by judge, agreement, preference."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pandas as pd

from models.families import families_named
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.human import gap_metric, human_metric
from pipelines.benchmarks.judges import CHANGED, PAIR_COUNTS, SHIFT, SHIFT_P, UNREAD_COUNT, pair_name
from pipelines.benchmarks.metrics_kernel.labels import MetricName
from pipelines.benchmarks.people import MARGIN, may_replace
from pipelines.benchmarks.records import (
    CORRECTED,
    JUDGE_AGREEMENT,
    JUDGE_LABELS,
    JUDGE_LABELS_NEEDED,
    JUDGE_SENSITIVITY,
    JUDGE_SPECIFICITY,
    RIGHT,
    Metric,
)
from pipelines.benchmarks.results import Key, Results, count_of, mean_of, with_interval
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.logged_answers.matching import ReadVerdict, difference
from pipelines.metrics.agreement import cohen_kappa
from pipelines.metrics.paired import holm
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.report.metrics_file import Measured
from pipelines.report.worded import worded
from pipelines.storage.parts import list_parts, part_folder, read_part
from pipelines.storage.store import Store

METRIC: Final = "verdicts_differ"
_EXAMPLES: Final = 3
_COLUMNS: Final = ["request_id", "their_correct", "their_answer", "their_rule"]


@dataclass(slots=True, kw_only=True)
class ComparedVerdicts:
    """How a reader's verdicts on a model's answers compare with ours."""

    benchmark: str
    model: str
    task: str
    setting: str
    rule: str  # the tool and its reader
    rows: int = 0  # with a verdict of both
    differing: dict[str, list[str]] = field(default_factory=dict)  # sample ids by how the verdicts differ

    def examples(self, kind: str) -> str:
        """Return the first samples of a kind."""
        return ", ".join(self.differing[kind][:_EXAMPLES])


def compared_verdicts(out: Store, entry: ManifestEntry, frame: pd.DataFrame) -> list[ComparedVerdicts]:
    """Compare the verdicts of a log with ours; none for answers that came with none."""
    logged = dict(_logged(out, entry)) if entry.external else {}
    compared: dict[tuple[str, str, str], ComparedVerdicts] = {}
    if not logged:
        return []
    columns = ["request_id", "sample_id", "task", "setting", "answer", "rule", "status"]
    values = [name for name in RIGHT if name in frame]
    for row in frame[frame["request_id"].isin(list(logged))][[*columns, *values]].to_dict("records"):
        verdict = logged[row["request_id"]]
        ours = _ours({str(name): value for name, value in row.items()})
        if ours is None:
            continue
        key = (row["task"], row["setting"], verdict.rule)
        identity = {"task": row["task"], "setting": row["setting"], "rule": verdict.rule}
        group = compared.setdefault(key, ComparedVerdicts(benchmark=entry.benchmark, model=entry.model, **identity))
        group.rows += 1
        kind = difference(ours, verdict)
        if kind:
            group.differing.setdefault(kind, []).append(row["sample_id"])
    return [compared[key] for key in sorted(compared)]


def _logged(out: Store, entry: ManifestEntry) -> Iterator[tuple[str, ReadVerdict]]:
    for info in list_parts(out, part_folder("predictions", entry.benchmark, entry.model)):
        for row in read_part(out, info).select(_COLUMNS).to_pylist():
            if row["their_correct"] is not None:
                yield (
                    row["request_id"],
                    ReadVerdict(correct=row["their_correct"], answer=row["their_answer"], rule=row["their_rule"] or ""),
                )


def _ours(row: dict[str, Any]) -> ReadVerdict | None:
    """Return our verdict; None where a row has none, such as without a judge."""
    value = next((row[name] for name in RIGHT if name in row and row[name] == row[name]), None)
    if value is None or row["status"] != "ok":
        return None
    return ReadVerdict(correct=float(value), answer=row["answer"], rule=row["rule"] or "")


def verdict_metrics(compared: Sequence[ComparedVerdicts]) -> list[Metric]:
    """Return how many verdicts differ, in all and by how they do."""
    by_group: dict[tuple[str, str], list[ComparedVerdicts]] = {}
    for group in compared:
        by_group.setdefault((group.task, group.setting), []).append(group)
    metrics = []
    for (task, setting), groups in by_group.items():
        counts = {"": sum(len(ids) for group in groups for ids in group.differing.values())}
        for group in groups:
            for kind, ids in group.differing.items():
                counts[kind] = counts.get(kind, 0) + len(ids)
        rows = sum(group.rows for group in groups)
        metrics += [
            Metric(task=task, setting=setting, category=kind, metric=METRIC, value=float(count), unit="count", n=rows)
            for kind, count in counts.items()
        ]
    return metrics


_REACH: Final = 0.02  # half width for which the table has the labels needed
_NOT_EVEN: Final = "not even with all labelled"
_SAME_FAMILY: Final = "the judge is of the model's family"


def families_of(name: str, spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the families of a model, by its name at its maker where the spec has one; none where it only guesses."""
    return frozenset() if spec.get("engine") == "random" else families_named(str(spec.get("model") or name))


def with_corrected_shifts(rows: Sequence[Measured]) -> list[Measured]:
    """Correct the p-values of a judge's shifts over all models, settings and changed questions of a report, by Holm."""
    places = [place for place, row in enumerate(rows) if row.metric == SHIFT_P]
    corrected = dict(zip(places, holm([rows[place].value for place in places]), strict=True))
    return [replace(row, value=corrected[place]) if place in corrected else row for place, row in enumerate(rows)]


def judge_tables(
    results: Results,
    by_judge: Mapping[str, Results],
    definition: BenchmarkDefinition,
    models: Mapping[str, Mapping[str, Any]],
) -> list[Table]:
    """Return the tables of one benchmark; none unless people labelled judged answers, or several judges gave verdicts.

    `results` has their agreement, `by_judge` the metrics by each; `models` are the specs of `run.json` by name.
    """
    judges = list(by_judge)
    label_table = [
        table for table in (_corrections(results, definition), _replacement(results), _checks(results)) if table.rows
    ]
    if len(judges) < 2:
        return label_table
    families = {name: families_of(name, models.get(name, {})) for name in (*judges, *results.models())}
    related = {(judge, model) for judge in judges for model in families if families[judge] & families[model]}
    rows = list(_rows([by_judge[judge] for judge in judges], definition))
    return [
        *label_table,
        _by_judge(results.benchmark, judges, rows, related),
        _agreement(results, judges),
        _preference(results.benchmark, judges, rows, related),
    ]


def _corrections(results: Results, definition: BenchmarkDefinition) -> Table:
    """Lay out each judged metric that people's labels correct, as judged and corrected, and how the judge errs."""
    rows = []
    for key, number in results.ours.items():
        name = key.metric.removesuffix(CORRECTED)
        if name == key.metric or name not in definition.judged_metrics or key.category != definition.whole_category:
            continue
        judge_key = key._replace(category="")
        needed = judge_key._replace(metric=JUDGE_LABELS_NEEDED, category=f"{_REACH:g}")
        cells = (
            with_interval(results.find(key._replace(metric=name))),
            with_interval(number),
            count_of(results.find(judge_key._replace(metric=JUDGE_LABELS))),
            *(
                with_interval(results.find(judge_key._replace(metric=of)))
                for of in (JUDGE_SENSITIVITY, JUDGE_SPECIFICITY)
            ),
            _NOT_EVEN if (more := count_of(results.find(needed))) is None else more,
        )
        group = ", ".join(filter(None, (key.setting, key.subset, key.category)))
        rows.append(TableRow(label=key.model, cells=(MetricName(name), group, *cells), note=number.note))
    return worded("judge_corrected", rows, name=results.benchmark, points=100 * _REACH)


def _replacement(results: Results) -> Table:
    """Lay out how judge and people agree with people, and whether the judge may replace them."""
    rows = []
    for key, number in results.ours.items():
        if key.metric == JUDGE_AGREEMENT:
            people, gap = (results.find(key._replace(metric=of(key.metric))) for of in (human_metric, gap_metric))
            may = may_replace(gap.low, gap.high) if gap else "undecided"
            cells = (key.setting, *map(with_interval, (number, people, gap)), may)
            rows.append(TableRow(label=key.model, cells=cells))
    return worded("judge_replacement", rows, name=results.benchmark, points=100 * MARGIN)


def _checks(results: Results) -> Table:
    """Lay out what changed questions do to the verdicts."""
    rows = []
    for key, number in results.ours.items():
        if key.metric == CHANGED:
            shift = with_interval(results.find(key._replace(metric=SHIFT)))
            p = results.find(key._replace(metric=SHIFT_P))
            cells = (key.setting, key.category, with_interval(number), shift, p.value if p else None)
            rows.append(TableRow(label=key.model, cells=cells))
    return worded("judge_checks", rows, name=results.benchmark)


def _rows(by_judge: Sequence[Results], definition: BenchmarkDefinition) -> Iterator[tuple[Key, list[TableValue]]]:
    """Yield the whole of each metric, task, setting and subset of each model, by judge."""
    first = by_judge[0].ours
    for key in first:
        whole = key._replace(category=definition.whole_category)
        if key == whole or (not key.category and whole not in first):
            yield key, [results.find(key) or TableValue(value=None) for results in by_judge]


def _by_judge(
    benchmark: str, judges: Sequence[str], rows: Sequence[tuple[Key, list[TableValue]]], related: set[tuple[str, str]]
) -> Table:
    lines = []
    for key, numbers in rows:
        values = [number.value for number in numbers if number.value is not None]
        cells: list[TableCell] = [
            replace(number, n=None, n_failed=None, note=_SAME_FAMILY if (judge, key.model) in related else number.note)
            for judge, number in zip(judges, numbers, strict=True)
        ]
        spread = max(values) - min(values) if len(values) > 1 else None
        group = ", ".join(filter(None, (key.subset, key.category)))
        name = f"{key.metric} ({group})" if group else key.metric
        lines.append(TableRow(label=key.model, cells=(name, key.setting, *cells, spread)))
    return worded("judges", lines, judges, name=benchmark, first=judges[0])


def _agreement(results: Results, judges: Sequence[str]) -> Table:
    rows = []
    for row, judge in enumerate(judges):
        cells: list[TableCell] = []
        for column in range(len(judges)):
            first, second = sorted((row, column))
            counts = _pair_counts(results, judges[first], judges[second]) if row != column else [0] * 4
            cells.append(None if row == column else _agreement_cell(counts))
        unread = [
            number.value for key, number in results.ours.items() if key[0] == UNREAD_COUNT and key.category == judge
        ]
        rows.append(TableRow(label=judge, cells=(*cells, int(sum(value or 0 for value in unread)))))
    return worded("judges_agreement", rows, judges, name=results.benchmark)


def _pair_counts(results: Results, first: str, second: str) -> list[int]:
    category = pair_name(first, second)
    return [
        int(
            sum(
                number.value or 0
                for key, number in results.ours.items()
                if (key.metric, key.category) == (name, category)
            )
        )
        for name in PAIR_COUNTS
    ]


def _agreement_cell(counts: Sequence[int]) -> TableCell:
    """Return the share of equal verdicts with kappa as its note; `counts` are those of `PAIR_COUNTS`."""
    both, _, _, neither = counts
    n = sum(counts)
    if not n:
        return None
    kappa = cohen_kappa((True, True, False, False), (True, False, True, False), counts)
    note = "kappa undefined: one verdict only" if kappa is None else f"kappa {kappa:.2f}"
    return TableValue(value=(both + neither) / n, n=n, note=note)


def _preference(
    benchmark: str, judges: Sequence[str], rows: Sequence[tuple[Key, list[TableValue]]], related: set[tuple[str, str]]
) -> Table:
    lines = []
    for index, judge in enumerate(judges):
        gaps: dict[bool, list[TableValue]] = {True: [], False: []}
        for key, numbers in rows:
            mean_of_others = mean_of([number for other, number in enumerate(numbers) if other != index])
            value = numbers[index].value
            if value is not None and mean_of_others is not None:
                gaps[(judge, key.model) in related].append(TableValue(value=value - mean_of_others))
        same_family, other_family = (mean_of(gaps[is_family]) for is_family in (True, False))
        preference = same_family - other_family if same_family is not None and other_family is not None else None
        lines.append(TableRow(label=judge, cells=(same_family, other_family, preference)))
    return worded("self_preference", lines, name=benchmark)
