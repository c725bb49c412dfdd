"""The planned requests of an entry, joined with their scores as columns."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from models.messages import Step, Text
from pipelines.benchmarks.records import Sample
from pipelines.metrics.intervals import FloatArray
from pipelines.plan.context import EntryPlan
from pipelines.plan.plan_store import iter_selected_samples
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.plan.stopping.until import STOPPED
from pipelines.plan.stored_plan import PlanReader
from pipelines.schemas import SCORES
from pipelines.storage.backend import FileInfo
from pipelines.storage.parts import list_parts, part_folder, read_part, score_path
from pipelines.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES_PER_GROUP = 3
_TEXTS = ("status", "answer", "rule", "finish_reason", "verdict_state")
_SCORE_COLUMNS = ["request_id", *_TEXTS, "flags", "values"]
_SLICE = 100_000  # rows that are Python objects of their own at a time
_REQUEST_COLUMNS = ("request_id", "sample_id", "task", "setting", "variant", "subset", "category", "cluster")


@dataclass(frozen=True, slots=True)
class PlannedEntry:
    """An entry of an output with its plans: the input of a reducer."""

    entry: ManifestEntry
    plans: Sequence[EntryPlan]
    other_prompt_sets: Sequence[PlannedEntry] = ()  # the same in its other sets of prompts

    def request_ids(self) -> Iterator[str]:
        """Yield the ids of the requests in the first set of prompts."""
        return (request_id for plan in self.plans for request_id in plan.iter_ids())


@dataclass(slots=True)
class EntryRequests:
    """The requests of an entry in the order of its plans."""

    columns: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in _REQUEST_COLUMNS})
    """Identity of each request, and its fields of the sample."""
    samples: dict[str, Sample] = field(default_factory=dict)  # by id
    example_texts: dict[str, str] = field(default_factory=dict)  # prompts of the examples, by request id
    prompts: set[tuple[str, str, str]] = field(default_factory=set)  # task, setting and version of the wording

    @classmethod
    def read(cls, planned: PlannedEntry) -> EntryRequests:
        """Read the requests of an entry's plans, and the prompts of a few."""
        requests = cls()
        examples: Counter[tuple[str, str]] = Counter()
        for entry_plan in planned.plans:
            selected = iter_selected_samples(entry_plan.dataset, entry_plan.entry.selection)
            samples = map(entry_plan.entry.prompts.asked_sample, selected)
            requests.samples |= {sample.sample_id: sample for sample in samples}
            reader = PlanReader(entry_plan.plan.store)
            for part in entry_plan.plan.parts:
                chosen = {}
                for index, key in enumerate(entry_plan.plan.read_columns(part).request_keys()):
                    sample, group = requests.samples[key.sample_id], (intern(key.task), intern(key.setting))
                    requests.prompts.add((*group, key.prompt_version))
                    request_id = entry_plan.entry.target.request_id(key)
                    sample_values = sample.subset, sample.category, sample.cluster
                    values = request_id, sample.sample_id, *group, intern(key.variant), *sample_values
                    for column, value in zip(requests.columns.values(), values, strict=True):
                        column.append(value)
                    # A small fixed sample of the whole set: which answers are shown depends only on their ids.
                    if examples[group] < EXAMPLES_PER_GROUP and _is_example(request_id, examples[group]):
                        examples[group] += 1
                        chosen[request_id] = index
                rows = reader.rows(part.path, list(chosen.values()))
                requests.example_texts |= {name: _text(row.steps) for name, row in zip(chosen, rows, strict=True)}
        return requests


def _is_example(request_id: str, count: int) -> bool:
    return count == 0 or hashlib.sha256(request_id.encode()).digest()[0] < 16


def _text(steps: Sequence[Step]) -> str:
    if not steps:
        return ""
    last = steps[-1]
    return "\n".join([*(p.text for turn in last.turns for p in turn.parts if isinstance(p, Text)), *last.scored])


def asked_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `EntryScores.join` without those that a run did not ask because it stopped before."""
    is_stopped = rows["flags"].map(lambda flags: isinstance(flags, list) and STOPPED in flags).astype(bool)
    return rows[~is_stopped].reset_index(drop=True) if is_stopped.any() else rows


@dataclass(frozen=True, slots=True)
class EntryScores:
    """Score rows of an entry, of those parts whose predictions still exist."""

    table: pa.Table  # of the last part first: where two parts hold a request, the later one counts
    parts: tuple[tuple[str, int], ...]  # predictions in the order of `table`, with their numbers of rows
    unscored: tuple[str, ...]  # predictions without scores
    predictions: Mapping[str, FileInfo]  # by path

    @classmethod
    def read(cls, out: Store, entry: ManifestEntry) -> EntryScores:
        """Read the scores of an entry; DamagedPartError, with what mends it, for a damaged part."""
        folders = (part_folder(kind, entry.benchmark, entry.model) for kind in ("predictions", "scores"))
        predictions, scored = ({info.path: info for info in list_parts(out, folder)} for folder in folders)
        tables, parts, unscored = [SCORES.empty_table().select(_SCORE_COLUMNS)], [], []
        for path in reversed(predictions):
            scores = score_path(path)
            if scores not in scored:
                unscored.append(path)
                continue
            tables.append(read_part(out, scored[scores], _SCORE_COLUMNS))
            parts.append((path, tables[-1].num_rows))
        return cls(pa.concat_tables(tables).combine_chunks(), tuple(parts), tuple(unscored), predictions)

    def join(self, columns: Mapping[str, list[str]]) -> pd.DataFrame:
        """Return one row per planned request, with status `missing` where there is no score."""
        import pandas as pd

        indices = pc.index_in(pa.array(columns["request_id"], pa.string()), value_set=self.table["request_id"])
        scores = self.table.take(indices)
        # Objects that equal rows share: a `str` column makes one a row whenever it becomes an array.
        frame = {name: pd.Series(values, dtype=object) for name, values in columns.items()}
        frame |= {name: pd.Series(_texts(scores[name]), dtype=object) for name in _TEXTS}
        frame["status"] = frame["status"].where(indices.is_valid().to_numpy(zero_copy_only=False), "missing")
        frame["verdict_state"] = frame["verdict_state"].fillna("absent")
        frame["flags"] = pd.Series(_lists(scores["flags"]), dtype=object)
        return pd.DataFrame({**frame, **dict(value_columns(scores["values"]))})

    def prediction_parts(self, request_ids: Sequence[str]) -> set[str]:
        """Return the prediction parts that may hold these requests."""
        indices = pc.index_in(pa.array(request_ids, pa.string()), value_set=self.table["request_id"]).drop_null()
        ends = np.cumsum([rows for _, rows in self.parts])
        numbers = np.searchsorted(ends, indices.to_numpy(zero_copy_only=False), side="right")
        return {*self.unscored, *(self.parts[number][0] for number in numbers)}


def _texts(column: pa.ChunkedArray) -> NDArray[np.object_]:
    """Return a column of texts, None where there is none; equal ones are one object."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    texts: NDArray[np.object_] = np.array(encoded.dictionary.to_pylist(), dtype=object)[encoded.indices.to_numpy()]
    return texts


def _lists(column: pa.ChunkedArray) -> list[list[str] | None]:
    """Return a column of lists of texts, None where there is none; equal ones are one list, which nobody may change."""
    lists: dict[str, list[str] | None] = {}
    slices = (column.slice(start, _SLICE).to_pylist() for start in range(0, len(column), _SLICE))
    return [lists.setdefault(repr(each), each) for rows in slices for each in rows]


def value_columns(column: pa.ChunkedArray) -> Iterator[tuple[str, FloatArray]]:
    """Yield each named value as a column, NaN where a row has none."""
    maps = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    rows = np.repeat(np.arange(len(maps)), np.diff(maps.offsets.to_numpy()))
    names, items = maps.keys, maps.items.to_numpy(zero_copy_only=False)
    for name in sorted(pc.unique(names).to_pylist()):
        values = np.full(len(maps), np.nan)
        is_named = pc.equal(names, name).to_numpy(zero_copy_only=False)
        values[rows[is_named]] = items[is_named]
        yield name, values
