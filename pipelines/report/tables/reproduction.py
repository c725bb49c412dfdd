"""Tables of our numbers next to the published ones: one line per paper, and the results of each."""

from collections.abc import Mapping, Sequence

from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.report.model import VERDICTS, ReproductionResult
from pipelines.report.reproduction import count_verdicts, reproduced_rule, reproduction_line
from pipelines.report.worded import worded_if_any


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
