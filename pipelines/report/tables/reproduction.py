"""Tables of our numbers next to the published ones: one line per paper, and the cells of each."""

from collections.abc import Mapping, Sequence

from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.report.model import VERDICTS, ReproductionCell
from pipelines.report.reproduction import count_verdicts, reproduced_rule, reproduction_line
from pipelines.report.worded import worded_if_any


def summary_table(cells: Mapping[str, Sequence[ReproductionCell]], titles: Mapping[str, str]) -> Table | None:
    """Return one row per paper with its cells by verdict; None where no model has a published row."""
    rows = []
    for name, paper_rows in cells.items():
        counts = count_verdicts(paper_rows)
        numbers = (len({cell.model for cell in paper_rows}), *(counts[verdict] for verdict in VERDICTS))
        rows.append(TableRow(label=titles[name], cells=(reproduction_line(paper_rows), *numbers)))
    return worded_if_any("reproduction", rows, rule=reproduced_rule())


def cells_table(name: str, title: str, cells: Sequence[ReproductionCell]) -> Table | None:
    """Return one row per cell; None where there are none."""
    rows, line = [TableRow(label=cell.model, cells=_cells(cell)) for cell in cells], reproduction_line(cells)
    return worded_if_any("reproduction_cells", rows, name=name, title=title, line=line, rule=reproduced_rule())


def _cells(cell: ReproductionCell) -> tuple[TableCell, ...]:
    setting = cell.setting
    if cell.published_setting not in (setting, ""):
        setting = f"{setting} ({cell.published_setting})"
    ours = TableValue(value=cell.ours, low=cell.ci_low, high=cell.ci_high, n=cell.n)
    cell_key = (cell.table, cell.metric, cell.task, setting, cell.subset, cell.category, cell.published_model)
    return (cell.verdict, ours, cell.published, cell.difference, *cell_key, "; ".join(cell.reasons))


def own_rows_table(name: str, title: str, cells: Sequence[ReproductionCell]) -> Table | None:
    """Return what our own rows could explain of the different cells, a row each; None if there are none."""
    rows = []
    for cell in cells:
        number = " ".join(filter(None, (cell.metric, cell.task, cell.setting, cell.subset, cell.category)))
        numbers = (number, cell.ours, cell.published)
        rows += [TableRow(label=cell.model, cells=(text, *numbers)) for text in cell.own_rows]
    return worded_if_any("own_rows", rows, name=name, title=title)
