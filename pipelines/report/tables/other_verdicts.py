"""The table of verdicts that another harness logged and that differ from ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.tables import Table, TableCell, TableRow
from pipelines.import_logs.verdicts import reader
from pipelines.report.other_verdicts import ComparedVerdicts


def verdict_table(name: str, verdicts: Sequence[ComparedVerdicts]) -> Table | None:
    """Return how many logged verdicts differ, by reader and by how; None where no log came with verdicts."""
    groups = [group for group in verdicts if group.benchmark == name]
    if not groups:
        return None
    return Table(
        id=f"{name}_other_verdicts",
        title=f"{benchmark(name).title}: verdicts of other harnesses beside ours",
        columns=("Task", "Setting", "Reader", "How it reads", "What differs", "Rows", "Of", "Samples"),
        rows=tuple(row for group in groups for row in _rows(group)),
        notes=("Answers that were imported from logs. Of: rows with a verdict of the harness and one of ours.",),
    )


def _rows(group: ComparedVerdicts) -> Iterator[TableRow]:
    start = (group.task, group.setting, group.rule, reader(group.rule))
    kinds: dict[str, tuple[TableCell, ...]] = {
        kind: (len(ids), group.rows, group.examples(kind)) for kind, ids in group.differing.items()
    }
    for kind, cells in (kinds or {"nothing": (0, group.rows, "")}).items():
        yield TableRow(label=group.model, cells=(*start, kind, *cells))
