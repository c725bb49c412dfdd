"""How many prompt tokens a model computed, beside the least that its questions could have cost."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.messages import Media, Request
from pipelines.benchmarks.tables import Table, TableRow
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

_COLUMNS = ["request_id", "status", "input_tokens", "cached_tokens", "head_tokens", "least_tokens"]


def media_key(request: Request) -> bytes:
    """Names the pictures and clips that a request shows, in their order; empty for words alone."""
    shown = [part for step in request.steps[-1:] for turn in step.turns for part in turn.parts]
    media = [(one.kind, one.source, one.frames) for one in shown if isinstance(one, Media)]
    return hashlib.sha256(repr(media).encode()).digest()[:16] if media else b""


def measure_efficiency(benchmark: str, model: str, out: Store, planned: Mapping[str, bytes]) -> Efficiency | None:
    """Add up the tokens of one model's answers on one benchmark.

    The least possible counts every distinct beginning once: each set of pictures or clips with the words before them
    once in the whole run, and of the words behind them what no other question of the same unit of work begins with.

    Args:
        benchmark: whose questions.
        model: whose answers.
        out: the output.
        planned: request id -> `media_key` of all requests of the plan.

    Returns:
        None where no answer tells its tokens.
    """
    asked = computed = least = rows = 0
    known = True
    heads: set[tuple[bytes, int]] = set()
    for row in _rows(out, part_folder("predictions", benchmark, model)):
        if row["status"] != "ok" or not row["input_tokens"] or str(row["request_id"]) not in planned:
            continue
        rows += 1
        asked += row["input_tokens"]
        computed += row["input_tokens"] - (row["cached_tokens"] or 0)
        if row.get("least_tokens") is None:
            known = False
            continue
        least += row["least_tokens"]
        head = (planned[str(row["request_id"])], row["head_tokens"] or 0)
        if head not in heads:
            heads.add(head)
            least += head[1]
    if not rows:
        return None
    return Efficiency(
        benchmark=benchmark,
        model=model,
        answers=rows,
        prompt_tokens=asked,
        computed_tokens=computed,
        least_tokens=least if known else None,
    )


def _rows(out: Store, folder: str) -> Iterable[Mapping[str, Any]]:
    for _, table in iter_parts(out, folder, _COLUMNS):
        yield from table.to_pylist()


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
