"""Prompt tokens that a model computed, compared with the least possible for its requests."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from sys import intern

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.benchmarks.tables import Table, TableRow
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

_COLUMNS = [
    *("request_id", "status", "input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "latency_s"),
    *("head_tokens", "least_tokens", "frames_used"),
]
_NOTE = (
    "Prompt tokens of all answers; computed: without those cached from another request with the same prefix; "
    "least possible: every distinct prefix computed once, media once per run, text once per unit of work. It is "
    "omitted where an engine does not report it."
)
_COST_NOTE = (
    "Prefix: what all requests about a picture or clip begin with; at an endpoint, which does not tell its size, at "
    "most the shortest of their prompts. Needed: each once. Paid: those of all answers that were computed, or billed "
    "in full. "
    "Cached: those that were kept from another request, and cost less or nothing."
)
_FRAMES_NOTE = "Clips shown with fewer frames than asked, because of the model's context or `max_frames`: "
_SETS_NOTE = "Each set of prompts is counted by itself; a request that several share counts in the first."


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTokens:
    """Tokens of what the requests of media groups begin with."""

    needed: int
    """With each group counted once."""
    paid: int
    """Of all requests, those that were computed or billed in full."""
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
    benchmark: str, model: str, out: Store, request_ids: Sequence[str], media_keys: Callable[[], Mapping[str, str]]
) -> Efficiency | None:
    """Sum the prompt tokens of one model's answers to planned requests.

    `media_keys` returns the `media_key` of each; it is called only if it is needed. The least possible counts every
    distinct prefix once: each set of media with the text before it once in the run, and of the text after it what no
    other request of the same unit begins with. None if no answer has token counts.
    """
    tables = [_answered(table) for _, table in iter_parts(out, part_folder("predictions", benchmark, model), _COLUMNS)]
    if not tables:
        return None
    rows = pa.concat_tables(tables, promote_options="default")
    rows = rows.filter(pc.is_in(rows["request_id"], value_set=pa.array(request_ids, pa.string())))
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
        least_tokens=_least_tokens(rows, media_keys),
        prefixes=_prefix_tokens(rows, media_keys()),
        fewer_frames=_fewer_frames(rows, media_keys),
    )


def _answered(table: pa.Table) -> pa.Table:
    return table.filter(pc.and_(pc.equal(table["status"], "ok"), pc.greater(table["input_tokens"], 0)))


def _sum(rows: pa.Table, column: str) -> float:
    return (pc.sum(rows[column]).as_py() or 0) if column in rows.column_names else 0


def _least_tokens(rows: pa.Table, media_keys: Callable[[], Mapping[str, str]]) -> int | None:
    if "least_tokens" not in rows.column_names or rows["least_tokens"].null_count:
        return None
    keys, heads = media_keys(), rows["head_tokens"].fill_null(0).to_pylist()
    prefixes = {(keys[name], head) for name, head in zip(rows["request_id"].to_pylist(), heads, strict=True)}
    return int(pc.sum(rows["least_tokens"]).as_py() + sum(head for _, head in prefixes))


def _prefix_tokens(rows: pa.Table, keys: Mapping[str, str]) -> PrefixTokens | None:
    """Sum the prefixes of media groups; where an engine does not know one it is the group's shortest prompt."""
    heads = rows["head_tokens"] if "head_tokens" in rows.column_names else pa.nulls(rows.num_rows, pa.int64())
    columns = (rows["request_id"], rows["input_tokens"], heads.fill_null(0), rows["cached_tokens"].fill_null(0))
    groups: dict[str, list[tuple[int, int]]] = {}
    for name, read, head, cached in zip(*(column.to_pylist() for column in columns), strict=True):
        if key := keys[name]:
            groups.setdefault(_first_medium(key), []).append((head or read, cached))
    if not groups:
        return None
    needed = paid = cached_tokens = 0
    for members in groups.values():
        size = min(read for read, _ in members)
        cached = sum(min(size, tokens) for _, tokens in members)
        needed, paid, cached_tokens = needed + size, paid + size * len(members) - cached, cached_tokens + cached
    return PrefixTokens(needed=needed, paid=paid, cached=cached_tokens)


@cache
def _first_medium(key: str) -> str:
    return repr(ast.literal_eval(key)[0])


def _fewer_frames(rows: pa.Table, media_keys: Callable[[], Mapping[str, str]]) -> tuple[tuple[int, int, int], ...]:
    """Count the answers whose clip was shown with fewer frames than requested, by both numbers."""
    if "frames_used" not in rows.column_names or rows["frames_used"].null_count == rows.num_rows:
        return ()
    keys, counts = media_keys(), Counter[tuple[int, int]]()
    for name, shown in zip(rows["request_id"].to_pylist(), rows["frames_used"].to_pylist(), strict=True):
        requested = _max_frames(keys[name])
        if shown is not None and shown < requested:
            counts[requested, shown] += 1
    return tuple((*numbers, count) for numbers, count in sorted(counts.items(), reverse=True))


@cache
def _max_frames(key: str) -> int:
    """Return the frames of the longest clip in a `media_key`."""
    return max((frames for _, _, frames in ast.literal_eval(key or "[]")), default=0)


def efficiency_table(name: str, title: str, rows: Sequence[Efficiency]) -> Table | None:
    """Return a table with one row per model; None if the benchmark has no token counts."""
    models = [row for row in rows if row.benchmark == name]
    if not models:
        return None
    has_sets = any(row.prompt_set for row in models)
    return Table(
        id=f"{name}_efficiency",
        title=f"{title}: prompt tokens computed and their lower bound",
        columns=(
            *(["Prompts"] if has_sets else []),
            "Answers",
            "Prompt tokens",
            "Computed",
            "Least possible",
            "Computed / least",
            "Computed / prompt",
        ),
        rows=tuple(
            TableRow(label=row.model, cells=(*([row.prompt_set] if has_sets else []), *_cells(row))) for row in models
        ),
        notes=(_NOTE, *([_SETS_NOTE] if has_sets else []), *_frames_note(models)),
    )


def cost_table(name: str, title: str, rows: Sequence[Efficiency]) -> Table | None:
    """Return a table of what models read of pictures and clips, paid and from caches; None without any."""
    models = [(row, row.prefixes) for row in rows if row.benchmark == name and row.prefixes]
    if not models:
        return None
    has_sets = any(row.prompt_set for row, _ in models)
    return Table(
        id=f"{name}_cost",
        title=f"{title}: prompt tokens of pictures and clips, paid and cached",
        columns=(*(["Prompts"] if has_sets else []), "Answers", "Prefix tokens needed", "Paid", "Cached"),
        rows=tuple(
            TableRow(
                label=row.model,
                cells=(
                    *([row.prompt_set] if has_sets else []),
                    *(row.answers, prefixes.needed, prefixes.paid, prefixes.cached),
                ),
            )
            for row, prefixes in models
        ),
        notes=(_COST_NOTE, *([_SETS_NOTE] if has_sets else [])),
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
