"""The table of tokens: asked for, computed, and the least possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.benchmarks.tables import Table, TableRow

_NOTE = (
    "Prompt tokens of all answers; computed: without those that were kept from another question with the same "
    "beginning; least possible: every distinct beginning computed once, pictures and clips once in the run, words "
    "once in a unit of work. It is left out where an engine does not tell."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Prompt tokens of one model on one benchmark."""

    benchmark: str
    model: str
    answers: int
    prompt_tokens: int
    computed_tokens: int
    least_tokens: int | None = None
    """None where the engine does not know."""


def efficiency_table(name: str, title: str, rows: Sequence[Efficiency]) -> Table | None:
    """A row a model; None where no answer of the benchmark tells its tokens."""
    own = [row for row in rows if row.benchmark == name]
    if not own:
        return None
    return Table(
        id=f"{name}_efficiency",
        title=f"{title}: prompt tokens computed and the least possible",
        columns=("Answers", "Prompt tokens", "Computed", "Least possible", "Computed / least", "Computed / prompt"),
        rows=tuple(TableRow(label=row.model, cells=_cells(row)) for row in own),
        notes=(_NOTE,),
    )


def _cells(row: Efficiency) -> tuple[int | str | None, ...]:
    over = f"{row.computed_tokens / row.least_tokens:.3f}" if row.least_tokens else None
    share = f"{row.computed_tokens / row.prompt_tokens:.3f}"
    return (row.answers, row.prompt_tokens, row.computed_tokens, row.least_tokens, over, share)
