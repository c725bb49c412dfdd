"""Tables of our numbers next to the published ones: one line per paper, and the cells of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.report.model import ReproductionCell
from pipelines.report.reproduction import REPRODUCED_RULE, count_verdicts, reproduction_line

_NOT_COMPARABLE: Final = (
    "Not comparable: the run has other items, another judge, prompt wording, revision, scorer or captioner than the "
    "paper, the paper's number is a misprint, or ours could not be measured. These cells do not count in any share."
)
_OWN_ROWS: Final = (
    "Of cells that differ: what our number would be with other outcomes of these rows. A paper's rows are not "
    "published; `vlmsweep compare OUT:MODEL published --explain` lists ours."
)
_COLUMNS: Final = (
    *("Verdict", "Ours", "Published", "Difference"),  # first, to be seen without scrolling
    *("Table", "Metric", "Task", "Setting", "Subset", "Category", "Published as", "Why not comparable"),
)


def summary_table(cells: Mapping[str, Sequence[ReproductionCell]], titles: Mapping[str, str]) -> Table | None:
    """Return one row per paper with its cells by verdict; None where no model has a published row."""
    rows = []
    for name, of_paper in cells.items():
        counts = count_verdicts(of_paper)
        comparable = counts["reproduced"] + counts["differs"]
        models = len({cell.model for cell in of_paper})
        numbers = (models, counts["reproduced"], comparable, counts["differs"], counts["not comparable"])
        rows.append(TableRow(label=titles[name], cells=(reproduction_line(of_paper), *numbers)))
    if not rows:
        return None
    return Table(
        id="reproduction",
        title="Cells of the papers' tables that our runs of the same models reproduce",
        label_head="Paper",
        columns=("Result", "Models", "Reproduced", "Comparable", "Differ", "Not comparable"),
        rows=tuple(rows),
        notes=(REPRODUCED_RULE, _NOT_COMPARABLE),
    )


def cells_table(name: str, title: str, cells: Sequence[ReproductionCell]) -> Table | None:
    """Return one row per cell; None where there are none."""
    if not cells:
        return None
    return Table(
        id=f"{name}_reproduction",
        title=f"{title}: {reproduction_line(cells)}",
        columns=_COLUMNS,
        rows=tuple(TableRow(label=cell.model, cells=_cells(cell)) for cell in cells),
        style="fraction4",
        notes=("Fractions, or counts. Difference: ours minus published.", REPRODUCED_RULE, _NOT_COMPARABLE),
    )


def _cells(cell: ReproductionCell) -> tuple[TableCell, ...]:
    setting = cell.setting
    if cell.published_setting not in (setting, ""):
        setting = f"{setting} ({cell.published_setting})"
    ours = TableValue(value=cell.ours, low=cell.ci_low, high=cell.ci_high, n=cell.n)
    cell_key = (cell.table, cell.metric, cell.task, setting, cell.subset, cell.category, cell.published_model)
    return (cell.verdict, ours, cell.published, cell.difference, *cell_key, "; ".join(cell.reasons))


def own_rows_table(name: str, title: str, cells: Sequence[ReproductionCell]) -> Table | None:
    """Return what our own rows could explain of the cells that differ, a row each; None where nothing differs."""
    rows = []
    for cell in cells:
        number = " ".join(filter(None, (cell.metric, cell.task, cell.setting, cell.subset, cell.category)))
        numbers = (number, cell.ours, cell.published)
        rows += [TableRow(label=cell.model, cells=(text, *numbers)) for text in cell.own_rows]
    if not rows:
        return None
    return Table(
        id=f"{name}_own_rows",
        title=f"{title}: what our own rows could explain",
        columns=("Our number would be", "Number", "Ours", "Published"),
        rows=tuple(rows),
        style="fraction4",
        notes=(_OWN_ROWS,),
    )
