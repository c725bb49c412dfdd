"""The plans of an output: each is written once and read by every stage.

Layout under `plan/benchmark=B/`:
    part-<hash of its content>.parquet    the rows of one shard of samples
    plan-<hash of its inputs>.json        which parts make up the plan of these inputs; written last
Files that no plan needs any more are deleted by a later run (`pipelines.plan.context`).
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from models.scratch import scratch
from pipelines.benchmarks.records import Sample
from pipelines.errors import UsageError
from pipelines.hashing import stable_id
from pipelines.ingest.dataset import Dataset
from pipelines.json_records import dump_checked, load_checked
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.selection import SampleSelection
from pipelines.plan.stored_plan import PLAN, ROW_GROUP, PlanPart, StoredPlan, plan_table
from pipelines.storage.parts import batched, num_rows, tables_to_parquet
from pipelines.storage.store import ListedFolder, Store
from pipelines.version import __version__

DIGITS = 32  # of an id, in hex
_DIGEST = "S16"  # compared byte by byte, as ids have one length
_CHUNK = 4096


class IdSet:
    """Ids of 32 hex digits as a sorted array."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        """Store these ids, each once; ValueError for one that is not hex."""
        content = bytearray()
        for chunk in batched(ids, _CHUNK):
            content += bytes.fromhex("".join(chunk))
        self._digests = np.frombuffer(content, _DIGEST)
        self._digests.sort()
        repeated = self._digests[1:] == self._digests[:-1]
        self.repeated = frozenset(digest.hex() for digest in _to_bytes(self._digests[1:][repeated]))
        """Those that were given more than once."""
        if self.repeated:
            self._digests = self._digests[np.concatenate([[True], ~repeated])]

    def __len__(self) -> int:
        return len(self._digests)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdSet) and np.array_equal(self._digests, other._digests)

    __hash__ = None  # type: ignore[assignment]  # it can grow

    def __contains__(self, request_id: str) -> bool:
        return bool(self.contains([request_id])[0])

    def contains(self, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return for each id whether it is in the set."""
        return self._find(_digests(ids))[1]

    def add(self, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Add ids; return for each whether it is new: neither in the set nor earlier in `ids`."""
        digests = _digests(ids)
        is_new = np.zeros(len(ids), dtype=bool)
        is_new[np.unique(digests, return_index=True)[1]] = True
        is_new &= ~self._find(digests)[1]
        added = np.sort(digests[is_new])
        self._digests = np.insert(self._digests, self._find(added)[0], added)
        return is_new

    def _find(self, digests: npt.NDArray[np.bytes_]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return where digests are or belong, and which of them are there."""
        positions = np.searchsorted(self._digests, digests)
        if not len(self._digests):
            return positions, np.zeros(len(digests), dtype=bool)
        return positions, self._digests[np.minimum(positions, len(self._digests) - 1)] == digests


def _digests(ids: Sequence[str]) -> npt.NDArray[np.bytes_]:
    return np.frombuffer(bytes.fromhex("".join(ids)), _DIGEST)


def _to_bytes(digests: npt.NDArray[np.bytes_]) -> list[bytes]:
    content = digests.tobytes()  # elements alone would lose their last zeros
    return [content[start : start + DIGITS // 2] for start in range(0, len(content), DIGITS // 2)]


SCHEMA_VERSION = 3
ALL_SAMPLES = SampleSelection()
PLAN_FOLDER = "plan"


class PlanStore:
    """Writes and opens plans; each is built at most once in the store's life."""

    def __init__(self, store: Store, *, source: Store | None = None) -> None:
        """Open the plans of an output; those that it lacks may be read from `source`."""
        self._sources = [store, *([source] if source else [])]
        self.opened: dict[str, StoredPlan] = {}
        """The plans that were written or opened here, by key."""
        self.files = ListedFolder(store, PLAN_FOLDER)

    @classmethod
    @contextlib.contextmanager
    def reading(cls, out: Store) -> Iterator[Self]:
        """Open the plans of an output that must not be written: what it lacks goes to a temporary folder."""
        with scratch() as folder:
            yield cls(Store(str(folder)), source=out)

    def write(
        self,
        dataset: Dataset,
        prompts: PromptPlan,
        selection: SampleSelection = ALL_SAMPLES,
        captions: Mapping[str, str] | None = None,
    ) -> StoredPlan:
        """Build a plan from its samples and write what is not stored yet; UsageError for an unusable selection.

        Its requests are written shard by shard, then the index that names the parts.
        """
        inputs, folder = _inputs(prompts, selection, captions), _folder(prompts.benchmark_name)
        key, parts = stable_id(inputs), list[PlanPart]()
        if key in self.opened:
            return self.opened[key]
        for _, samples in iter_selected_shards(dataset, selection):
            rows = (row for sample in samples for row in prompts.rows(sample, captions))
            content = tables_to_parquet(map(plan_table, batched(rows, ROW_GROUP)), PLAN)
            path = f"{folder}/part-{sha256(content).hexdigest()[:24]}.parquet"
            self.files.put_named(path, content)
            parts.append(PlanPart(path=path, samples=len(samples), rows=num_rows(content)))
        plan = StoredPlan(self.files.store, tuple(parts))
        index = dump_checked({"inputs": inputs, "parts": [asdict(part) for part in parts]})
        self.files.put(f"{folder}/plan-{key}.json", index)
        self.opened[key] = plan
        return plan

    def open(
        self,
        dataset: Dataset,
        prompts: PromptPlan,
        selection: SampleSelection = ALL_SAMPLES,
        captions: Mapping[str, str] | None = None,
    ) -> StoredPlan:
        """Open the stored plan of these inputs; write it if the output has none."""
        key = plan_key(prompts, selection, captions)
        if key not in self.opened:
            candidates = (_load(store, prompts.benchmark_name, key) for store in self._sources)
            plan = next((plan for plan in candidates if plan), None)
            self.opened[key] = plan or self.write(dataset, prompts, selection, captions)
        return self.opened[key]


def plan_key(prompts: PromptPlan, selection: SampleSelection, captions: Mapping[str, str] | None) -> str:
    """Return the name of a plan: a hash of all that decides its content, without the model."""
    return stable_id(_inputs(prompts, selection, captions))


def _inputs(prompts: PromptPlan, selection: SampleSelection, captions: Mapping[str, str] | None) -> dict[str, Any]:
    limit = selection.limit
    return {
        "schema": SCHEMA_VERSION,
        "version": __version__,
        "benchmark_version": prompts.benchmark.version,
        "texts": stable_id(dict(prompts.benchmark.prompt_texts)),
        **prompts.to_dict(),
        "limit": [limit.first, limit.last, limit.share] if limit else None,
        "sample_ids": sorted(set(selection.sample_ids)),
        "captions": stable_id(dict(captions or {})) if prompts.captioner else "",
    }


def _folder(benchmark: str) -> str:
    return f"{PLAN_FOLDER}/benchmark={benchmark}"


def _load(store: Store, benchmark: str, key: str) -> StoredPlan | None:
    parts = plan_parts(store, f"{_folder(benchmark)}/plan-{key}.json")
    if parts is None or not all(store.exists(part.path) for part in parts):
        return None
    return StoredPlan(store, parts)


def plan_parts(store: Store, index: str) -> tuple[PlanPart, ...] | None:
    """Return the parts that the index of a plan names; None for an absent or damaged index."""
    try:
        return tuple(PlanPart(**part) for part in load_checked(store.get(index))["parts"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def iter_selected_shards(dataset: Dataset, selection: SampleSelection) -> Iterator[tuple[str, Sequence[Sample]]]:
    """Yield the selected samples in canonical order, shard by shard, each shard with its path.

    Raises:
        UsageError: the selection is empty, or names a sample that the dataset does not have.
    """
    manifest, limit = dataset.manifest, selection.limit
    missing = set(selection.sample_ids)
    span = limit.span(manifest.samples) if limit else range(manifest.samples)
    position = 0
    for shard in manifest.shards:
        start, position = position, position + shard.rows
        if start >= span.stop or position <= span.start:
            continue
        samples = [
            sample
            for index, sample in enumerate(dataset.read_shard(shard.path), start)
            if index in span and (not selection.sample_ids or sample.sample_id in missing)
        ]
        missing -= {sample.sample_id for sample in samples}
        if samples:
            yield shard.path, samples
    if missing:
        where = "among the samples that --limit leaves" if limit else f"in {manifest.benchmark}"
        raise UsageError(f"no sample {min(missing)!r} {where}")
    if not len(span):
        raise UsageError(f"--limit leaves nothing of the {manifest.samples} samples")


def iter_selected_samples(dataset: Dataset, selection: SampleSelection) -> Iterator[Sample]:
    """Yield the selected samples in canonical order; errors as `iter_selected_shards`."""
    return (sample for _, samples in iter_selected_shards(dataset, selection) for sample in samples)
