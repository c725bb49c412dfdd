"""Read V-FLUTE's training and validation rows in the hub's form."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from pipelines.benchmarks.records import Rejection, Source
from pipelines.benchmarks.vflute.prompts import PAPER_TEMPLATES, WHITE, fill_claim, solved_answer
from pipelines.benchmarks.vflute.source_hub import hub_files, hub_rows
from pipelines.errors import SourceError
from pipelines.finetune.records import ExampleRow

_TEMPLATES: Final = sorted(PAPER_TEMPLATES.values())


def vflute_rows(source: Source, split: str, *, white: bool) -> Iterator[ExampleRow | Rejection]:
    """Yield the rows of `data/SPLIT-*.parquet`; `white` replaces their pictures by the white square.

    Raises:
        SourceError: the split has no files, some are missing, or one is unreadable.
    """
    files = hub_files(source, split)
    if not files:
        raise SourceError(
            f"{source.uri}: no data/{split}-*.parquet; give the folder of huggingface.co/datasets/ColumbiaNLP/V-FLUTE"
        )
    for row in hub_rows(source, files, split):
        if isinstance(row, Rejection):
            yield row
            continue
        yield ExampleRow(
            row_id=row.row.id,
            file=row.file,
            instruction=fill_claim(drawn_template(row.row.id), row.row.claim),
            answer=solved_answer(row.row.explanation, row.row.label),
            picture=WHITE.source if white else hashlib.sha256(row.picture).hexdigest(),
            content=None if white else row.picture,
        )


def has_split(source: Source, split: str) -> bool:
    """Return whether the folder has files of a split."""
    return bool(hub_files(source, split))


def drawn_template(row_id: str) -> str:
    """Return one of the paper's 21 instructions, drawn by the row's id; the authors' own draw is not published."""
    return _TEMPLATES[int(hashlib.sha256(row_id.encode()).hexdigest(), 16) % len(_TEMPLATES)]
