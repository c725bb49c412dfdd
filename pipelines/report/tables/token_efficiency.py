"""Prompt tokens that a model computed, compared with the least possible for its requests."""

import ast
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from sys import intern

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.benchmarks.tables import Table, TableRow
from pipelines.report.worded import worded
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

_COLUMNS = [
    *("request_id", "status", "input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "latency_s"),
    *("head_tokens", "least_tokens", "frames_used"),
]
_FRAMES_NOTE = "Clips shown with fewer frames than asked, because of the model's context or `max_frames`: "
_SETS_NOTE = "Each set of prompts is counted by itself; a request that several share counts in the first."


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTokens:
    """Tokens of what the requests of media groups begin with."""

    needed: int  # with each group counted once
    paid: int  # of all requests, those that were computed or billed in full
    cached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Prompt tokens of one model on one benchmark."""

    benchmark: str
    model: str
    prompt_set: str = ""  # the set of prompts, of several
    answers: int
    prompt_tokens: int
    computed_tokens: int
    output_tokens: int = 0
    cache_write_tokens: int = 0
    latency_s: float = 0.0  # from the requests to their answers, added up; of an answer in a batch that of the batch
    least_tokens: int | None = None  # None if the engine does not report it
    prefixes: PrefixTokens | None = None  # None where no request shows a picture or clip
    fewer_frames: tuple[tuple[int, int, int], ...] = ()  # frames requested, frames shown, answers

    @property
    def cached_tokens(self) -> int:
        """Tokens that were kept from another request."""
        return self.prompt_tokens - self.computed_tokens


def media_key(messages: str) -> str:
    """Return the media of a request, in order, as a text from its JSON (`PlanRow.messages`); empty without media."""
    turns = json.loads(messages)[-1:]
    media = [part[1:] for step in turns for _, parts in step[0] for part in parts if part[0] == "media"]
    return intern(repr(media)) if media else ""


def measure_efficiency(
    benchmark: str, model: str, out: Store, media_keys: Callable[[], Iterable[Mapping[str, str]]]
) -> Efficiency | None:
    """Sum the prompt tokens of one model's answers to planned requests.

    `media_keys` returns the requests that count with the `media_key` of each, in portions; it is called once, if there
    are token counts. The least possible counts every distinct prefix once: each set of media with the text before it
    once in the run, and of the text after it what no other request of the same unit begins with. None if no answer has
    token counts.
    """
    tables = [_answered(table) for _, table in iter_parts(out, part_folder("predictions", benchmark, model), _COLUMNS)]
    if not any(table.num_rows for table in tables):
        return None
    rows, keys = _with_media(pa.concat_tables(tables, promote_options="default"), media_keys())
    if not rows.num_rows:
        return None
    prompt = pc.sum(rows["input_tokens"]).as_py()
    return Efficiency(
        benchmark=benchmark,
        model=model,
        answers=rows.num_rows,
        prompt_tokens=prompt,
        computed_tokens=prompt - int(_sum(rows, "cached_tokens")),
        output_tokens=int(_sum(rows, "output_tokens")),
        cache_write_tokens=int(_sum(rows, "cache_write_tokens")),
        latency_s=_sum(rows, "latency_s"),
        least_tokens=_least_tokens(rows),
        prefixes=_prefix_tokens(rows, keys),
        fewer_frames=_fewer_frames(rows, keys),
    )


def _with_media(rows: pa.Table, media_keys: Iterable[Mapping[str, str]]) -> tuple[pa.Table, list[str]]:
    """Return the rows that count with their `media`, indices of the keys that are returned too."""
    codes: dict[str, int] = {}
    portions = [
        (
            pa.array([*portion], pa.string()),
            np.array([codes.setdefault(key, len(codes)) for key in portion.values()], int),
        )
        for portion in media_keys
    ]
    ids = pa.chunked_array([names for names, _ in portions], pa.string())
    indices = pc.index_in(rows["request_id"], value_set=ids)
    media = np.concatenate([np.empty(0, np.int64), *(of for _, of in portions)])[indices.drop_null().to_numpy()]
    return rows.filter(indices.is_valid()).append_column("media", pa.array(media)), [*codes]


def _answered(table: pa.Table) -> pa.Table:
    return table.filter(pc.and_(pc.equal(table["status"], "ok"), pc.greater(table["input_tokens"], 0)))


def _sum(rows: pa.Table, column: str) -> float:
    return (pc.sum(rows[column]).as_py() or 0) if column in rows.column_names else 0


def _least_tokens(rows: pa.Table) -> int | None:
    if "least_tokens" not in rows.column_names or rows["least_tokens"].null_count:
        return None
    prefixes = np.unique(np.stack([rows["media"].to_numpy(), _heads(rows)]), axis=1)
    return int(pc.sum(rows["least_tokens"]).as_py() + prefixes[1].sum())


def _heads(rows: pa.Table) -> NDArray[np.int64]:
    heads = rows["head_tokens"] if "head_tokens" in rows.column_names else pa.nulls(rows.num_rows, pa.int64())
    return np.asarray(heads.fill_null(0))


def _prefix_tokens(rows: pa.Table, keys: Sequence[str]) -> PrefixTokens | None:
    """Sum the prefixes of media groups; where an engine does not know one it is the group's shortest prompt."""
    media = [ast.literal_eval(key or "[]")[:1] for key in keys]
    firsts = np.unique([repr(each) for each in media], return_inverse=True)[1]
    is_shown = np.array([bool(each) for each in media])[rows["media"]]
    if not is_shown.any():
        return None
    heads = _heads(rows)
    read = np.where(heads > 0, heads, rows["input_tokens"])[is_shown]
    groups, group = np.unique(firsts[rows["media"]][is_shown], return_inverse=True)
    sizes = np.full(len(groups), read.max())
    np.minimum.at(sizes, group, read)
    cached = int(np.minimum(sizes[group], np.asarray(rows["cached_tokens"].fill_null(0))[is_shown]).sum())
    return PrefixTokens(needed=int(sizes.sum()), paid=int(sizes[group].sum()) - cached, cached=cached)


def _fewer_frames(rows: pa.Table, keys: Sequence[str]) -> tuple[tuple[int, int, int], ...]:
    """Count the answers whose clip was shown with fewer frames than requested, by both numbers."""
    if "frames_used" not in rows.column_names or rows["frames_used"].null_count == rows.num_rows:
        return ()
    frames = np.array([max((frames for _, _, frames in ast.literal_eval(key or "[]")), default=0) for key in keys])
    requested = frames[rows["media"]]
    shown = np.asarray(rows["frames_used"].fill_null(np.iinfo(np.int64).max))
    counts = Counter(zip(requested[shown < requested].tolist(), shown[shown < requested].tolist(), strict=True))
    return tuple((*numbers, count) for numbers, count in sorted(counts.items(), reverse=True))


def efficiency_table(name: str, title: str, rows: Sequence[Efficiency]) -> Table | None:
    """Return a table with one row per model; None if the benchmark has no token counts."""
    models = [row for row in rows if row.benchmark == name]
    lines = (TableRow(label=row.model, cells=_cells(row)) for row in models)
    table = worded("efficiency", lines, name=name, title=title)
    return _by_set(table, models, _frames_note(models))


def cost_table(name: str, title: str, rows: Sequence[Efficiency]) -> Table | None:
    """Return a table of what models read of pictures and clips, paid and from caches; None without any."""
    models = [(row, row.prefixes) for row in rows if row.benchmark == name and row.prefixes]
    lines = (
        TableRow(label=row.model, cells=(row.answers, prefixes.needed, prefixes.paid, prefixes.cached))
        for row, prefixes in models
    )
    table = worded("prefix_cost", lines, name=name, title=title)
    return _by_set(table, [row for row, _ in models])


def _by_set(table: Table, models: Sequence[Efficiency], more_notes: Sequence[str] = ()) -> Table | None:
    """Return a table with a column for the sets of prompts where there are several; None without rows."""
    notes = (*table.notes, *more_notes)
    if not any(row.prompt_set for row in models):
        return replace(table, notes=notes) if models else None
    lines = zip(models, table.rows, strict=True)
    return replace(
        table,
        columns=("Prompts", *table.columns),
        rows=tuple(replace(line, cells=(row.prompt_set, *line.cells)) for row, line in lines),
        notes=(*table.notes, _SETS_NOTE, *more_notes),
    )


def _frames_note(rows: Sequence[Efficiency]) -> list[str]:
    counts = [
        f"{row.model} {shown} of {requested} frames in {count} answers"
        for row in rows
        for requested, shown, count in row.fewer_frames
    ]
    return [f"{_FRAMES_NOTE}{'; '.join(counts)}."] if counts else []


def _cells(row: Efficiency) -> tuple[int | str | None, ...]:
    ratio = f"{row.computed_tokens / row.least_tokens:.3f}" if row.least_tokens else None
    share = f"{row.computed_tokens / row.prompt_tokens:.3f}"
    return (row.answers, row.prompt_tokens, row.computed_tokens, row.least_tokens, ratio, share)
