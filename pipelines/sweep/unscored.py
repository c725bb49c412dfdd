"""Answers without scores, of which a report alone knows nothing: how many, and what its tables show instead."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.predict.records import CellCount
from pipelines.storage.parts import iter_parts, part_folder, score_path
from pipelines.storage.store import Store

_STATUS = pa.schema([("request_id", pa.string()), ("status", pa.string())])


def unscored_notes(context: SweepContext, entries: Sequence[ManifestEntry]) -> list[str]:
    """Return how many answers of each entry have no scores and what its tables show for them, a sentence each."""
    notes = []
    for entry in entries:
        rows = _unscored(entry, context.out)
        if not rows.num_rows:
            continue
        is_planned = context.planned_ids(entry).contains(rows["request_id"].to_pylist())
        states = Counter(compress(rows["status_last_scored"].to_pylist(), is_planned))
        shown = [f"{n:,} count as the {state} rows that they replace" for state, n in states.items() if state]
        shown = [f"{states[None]:,} count as never run", *shown] if states[None] else shown
        if shown:
            text = f"{entry.model} on {entry.benchmark}: answers without scores: {', '.join(shown)}"
            notes.append(f"{text}; `vlmsweep score` scores them")
    return notes


def _unscored(entry: ManifestEntry, out: Store) -> pa.Table:
    """Return `request_id` of answers without a score; `status_last_scored`: of an older answer with one, or null."""
    predictions, scores = (
        dict(iter_parts(out, part_folder(kind, entry.benchmark, entry.model), _STATUS.names))
        for kind in ("predictions", "scores")
    )
    current = [scores[score_path(path)] for path in predictions if score_path(path) in scores]
    answers, scored = (  # where two parts hold a request, the later one counts
        pa.concat_tables([_STATUS.empty_table(), *parts])
        .group_by("request_id", use_threads=False)
        .aggregate([("status", "last")])
        for parts in (predictions.values(), current)
    )
    rows = answers.join(scored, "request_id", right_suffix="_scored")
    return rows.filter(pc.not_equal(rows["status_last"], pc.fill_null(rows["status_last_scored"], "")))


def cut_notes(counts: Iterable[CellCount]) -> list[str]:
    """Return a sentence for each model whose replies the limit of tokens ended before an answer, with both numbers."""
    cut, answered = Counter[str](), Counter[str]()
    for count in counts:
        cut[count.model] += count.cut
        answered[count.model] += count.ok
    return [
        f"{model}: {number:,} of {answered[model]:,} replies were cut by the limit of tokens before an answer; raise "
        "max_new_tokens under `generation` of its entry, or let it think less"
        for model, number in cut.items()
        if number
    ]
