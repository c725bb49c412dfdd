"""The page of a stress test: which conclusions flip, and of which models and pairs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jobs.analysis.stress.changes import (
    FLIPS,
    PATH,
    SIGNIFICANCE,
    Estimate,
    PairChange,
    StressResult,
    load_stress,
    stress_json,
    stress_results,
    with_holm,
)
from jobs.shared.output import table
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.plan.stress.conditions import Condition
from pipelines.report.model import Section
from pipelines.report.sections import ReportInputs
from pipelines.report.worded import worded
from pipelines.storage.store import Store

_HEADS: Final = ("benchmark", "cell", "condition", "moved answers", "change of share right", "pairs")


def stress_result(out: Store) -> tuple[Mapping[str, Any], list[str]]:
    """Return the results of an output's report, as a key of JSON and as lines."""
    results = load_stress(out)
    if not results:
        return {"stress": results}, []
    where = "Paired by question; 95% over clusters. Models and pairs: report/stress.html and report/stress.json."
    return {"stress": results}, [table(_HEADS, [_stressed(result) for result in results]), where]


def _stressed(result: Mapping[str, Any]) -> list[str]:
    return [
        *(result["benchmark"], f"{result['task']} {result['setting']}", result["condition"]),
        *("-" if (e := result[name]) is None else _with_ends(e) for name in ("moved", "change")),
        result["conclusion"],
    ]


def _with_ends(estimate: Mapping[str, Any]) -> str:
    low, high = estimate["ci_low"], estimate["ci_high"]
    return f"{estimate['value']:.3f}" + ("" if low is None or high is None else f" [{low:.3f}, {high:.3f}]")


_WORDS: Final = "jobs.analysis.stress"


def stress_section(inputs: ReportInputs) -> tuple[Section, ...]:
    """Return the page of a run's stress test; none without one."""
    results: list[StressResult] = []
    for name in inputs.benchmarks:
        rows = {
            results.counts[0].model: results.stressed
            for results in inputs.results
            if results.stressed is not None and results.counts[0].benchmark == name
        }
        results += stress_results(name, rows, inputs.run.baselines)
    return (section_of(with_holm(results)),) if results else ()


def section_of(results: Sequence[StressResult]) -> Section:
    """Return the page of results, with their file."""
    conditions = dict.fromkeys(result.condition for result in results)
    conclusions = worded(
        f"{_WORDS}:stress",
        (TableRow(label=benchmark(result.benchmark).title, cells=_conclusion(result)) for result in results),
        notes=[f"{name}: {Condition.parse(name).text}." for name in conditions],
        significance=SIGNIFICANCE,
    )
    tables: tuple[Table, ...] = (
        worded(f"{_WORDS}:stress_models", _models(results)),
        worded(f"{_WORDS}:stress_pairs", _pairs(results), significance=SIGNIFICANCE),
    )
    tables = tuple(table for table in tables if table.rows)
    files = {PATH: stress_json(results)}
    return Section(name="stress", title="Stress test", summary=(conclusions,), tables=tables, files=files)


def _conclusion(result: StressResult) -> tuple[TableCell, ...]:
    return (
        *(
            result.condition,
            result.conclusion,
            result.task,
            result.setting,
            _value(result.moved),
            _value(result.change),
        ),
        *(len(result.models), len(result.pairs), result.swapped, result.swapped_beyond_chance),
        *map(result.count, FLIPS),
    )


def _models(results: Sequence[StressResult]) -> Iterator[TableRow]:
    for result in results:
        for row in result.models:
            yield TableRow(
                label=row.model,
                cells=(
                    *(result.condition, result.benchmark, result.task, result.setting, row.n, row.before, row.after),
                    *(_value(row.change), row.change.p, _value(row.moved), row.to_wrong, row.to_right),
                ),
            )


def _pairs(results: Sequence[StressResult]) -> Iterator[TableRow]:
    for result in results:
        for pair in result.pairs:
            yield TableRow(
                label=f"{pair.model_b}, {pair.model_a}",
                cells=(
                    *(result.condition, result.benchmark, result.task, result.setting, _outcome(pair), pair.is_swapped),
                    pair.n,
                    *(part for e in (pair.before, pair.after, pair.shift) for part in (_value(e), e.p)),
                ),
            )


def _outcome(pair: PairChange) -> str:
    return f"{pair.outcome}, beyond chance" if pair.is_beyond_chance else pair.outcome


def _value(estimate: Estimate | None) -> TableValue | None:
    return TableValue(value=estimate.value, low=estimate.ci_low, high=estimate.ci_high) if estimate else None
