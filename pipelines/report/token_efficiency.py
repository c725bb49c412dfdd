"""Prompt tokens that a model computed, compared with the least possible for its requests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.messages import Media, Step
from pipelines.benchmarks.tables import Table, TableRow
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

_COLUMNS = ["request_id", "status", "input_tokens", "cached_tokens", "head_tokens", "least_tokens"]
_NOTE = (
    "Prompt tokens of all answers; computed: without those cached from another request with the same prefix; "
    "least possible: every distinct prefix computed once, media once per run, text once per unit of work. It is "
    "omitted where an engine does not report it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Prompt tokens of one model on one benchmark."""

    benchmark: str
    model: str
    answers: int
    prompt_tokens: int
    computed_tokens: int
    least_tokens: int | None = None  # None if the engine does not report it


def media_key(steps: Sequence[Step]) -> bytes:
    """Return a hash of the media of a request, in order; empty without media."""
    parts = [part for step in steps[-1:] for turn in step.turns for part in turn.parts]
    media = [(part.kind, part.source, part.frames) for part in parts if isinstance(part, Media)]
    return hashlib.sha256(repr(media).encode()).digest()[:16] if media else b""


def measure_efficiency(benchmark: str, model: str, out: Store, planned: Mapping[str, bytes]) -> Efficiency | None:
    """Sum the prompt tokens of one model's answers; `planned` maps request ids to `media_key`s.

    The least possible counts every distinct prefix once: each set of media with the text before it once in the run, and
    of the text after it what no other request of the same unit begins with. None if no answer has token counts.
    """
    prompt = computed = least = answers = 0
    least_is_known = True
    prefixes: set[tuple[bytes, int]] = set()
    for row in _rows(out, part_folder("predictions", benchmark, model)):
        if row["status"] != "ok" or not row["input_tokens"] or str(row["request_id"]) not in planned:
            continue
        answers += 1
        prompt += row["input_tokens"]
        computed += row["input_tokens"] - (row["cached_tokens"] or 0)
        if row.get("least_tokens") is None:
            least_is_known = False
            continue
        least += row["least_tokens"]
        prefix = (planned[str(row["request_id"])], row["head_tokens"] or 0)
        if prefix not in prefixes:
            prefixes.add(prefix)
            least += prefix[1]
    if not answers:
        return None
    return Efficiency(
        benchmark=benchmark,
        model=model,
        answers=answers,
        prompt_tokens=prompt,
        computed_tokens=computed,
        least_tokens=least if least_is_known else None,
    )


def _rows(out: Store, folder: str) -> Iterable[Mapping[str, Any]]:
    for _, table in iter_parts(out, folder, _COLUMNS):
        yield from table.to_pylist()


def efficiency_table(name: str, title: str, rows: Sequence[Efficiency]) -> Table | None:
    """Return a table with one row per model; None if the benchmark has no token counts."""
    models = [row for row in rows if row.benchmark == name]
    if not models:
        return None
    return Table(
        id=f"{name}_efficiency",
        title=f"{title}: prompt tokens computed and their lower bound",
        columns=("Answers", "Prompt tokens", "Computed", "Least possible", "Computed / least", "Computed / prompt"),
        rows=tuple(TableRow(label=row.model, cells=_cells(row)) for row in models),
        notes=(_NOTE,),
    )


def _cells(row: Efficiency) -> tuple[int | str | None, ...]:
    ratio = f"{row.computed_tokens / row.least_tokens:.3f}" if row.least_tokens else None
    share = f"{row.computed_tokens / row.prompt_tokens:.3f}"
    return (row.answers, row.prompt_tokens, row.computed_tokens, row.least_tokens, ratio, share)
