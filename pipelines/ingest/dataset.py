"""A benchmark as Parquet shards of samples, media by content hash, and a manifest, written last.

Layout under `DATA/BENCHMARK/`:
    manifest.json                 counts, hashes, source, dataset fingerprint
    samples/part-00000.parquet    one row per sample; samples of a cluster are adjacent
    media/<sha256>.<ext>          each picture and video once
    rejected.jsonl                unusable rows, with reasons
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from models.messages import Media
from pipelines.benchmarks import code_benchmarks
from pipelines.benchmarks.known_tables import TableDefinition, add_table, use_tables
from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.errors import DatasetError
from pipelines.json_records import MalformedError, dump_checked, load_checked, read_record
from pipelines.media.decoder import DECODERS
from pipelines.schemas import schema_of
from pipelines.storage.parts import open_parquet
from pipelines.storage.store import Store

SCHEMA_VERSION = 1
ROW_GROUP = 128

_SMALL = dict.fromkeys(("width", "height", "frames"), pa.int32())
_MEDIA = pa.struct([*schema_of(MediaRef, {"kind": pa.string(), **_SMALL})])
SAMPLE_SCHEMA = schema_of(Sample, {"media": pa.list_(_MEDIA), "data": pa.string()})
"""`data` is JSON: the benchmark's own fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardInfo:
    """One Parquet shard of samples."""

    path: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Counts, source and fingerprint of an ingested benchmark."""

    benchmark: str
    dataset_fingerprint: str  # of all samples and media contents, independent of shards and order
    source: str
    samples: int
    rejected: int
    media: int
    media_bytes: int
    counts: dict[str, int]  # samples by category
    shards: tuple[ShardInfo, ...]
    notices: tuple[str, ...]
    schema_version: int = SCHEMA_VERSION
    product_version: str = ""
    decoders: dict[str, str] = field(default_factory=dict)  # hash of a clip -> those that decode it rightly, if not all
    table: TableDefinition | None = None  # of a table benchmark

    def decoders_of(self, sha256: str) -> tuple[str, ...]:
        """Return the decoders that decode a clip rightly."""
        return tuple(self.decoders[sha256].split(",")) if sha256 in self.decoders else DECODERS

    def to_json(self) -> bytes:
        """Return the content of `manifest.json`: the fields and their checksum."""
        content = asdict(self)
        if self.table is None:  # the form of benchmarks with code
            del content["table"]
        return dump_checked(content)

    @classmethod
    def from_json(cls, content: bytes) -> Manifest:
        """Parse `manifest.json`; raise MalformedError if it is invalid."""
        return read_record(cls, load_checked(content))


class Dataset:
    """Reads canonical data. Cheap to build and safe to send to workers."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self.store, self.manifest = store, manifest

    @classmethod
    def open(cls, data: Store, benchmark: str, store: Store | None = None) -> Dataset:
        """Open `DATA/BENCHMARK`, by its `store` if it is open; DatasetError if it is not ingested or not readable.

        A table benchmark is known from then on, unless its name stands for another one.
        """
        store = store or data.sub(benchmark)
        try:
            manifest = Manifest.from_json(store.get("manifest.json"))
        except FileNotFoundError:
            raise DatasetError(
                f"{store.uri}: no ingested data; run `vlmsweep ingest {benchmark} SOURCE --data {data.uri}` first"
            ) from None
        except MalformedError as error:
            raise DatasetError(f"{store.uri}/manifest.json: damaged ({error}); ingest again") from error
        if manifest.schema_version != SCHEMA_VERSION:
            raise DatasetError(f"{store.uri}: written by another version ({manifest.schema_version}); ingest again")
        if manifest.table:
            add_table(manifest.table)
        return cls(store, manifest)

    def read_shard(self, path: str) -> list[Sample]:
        """Return the samples of one shard, in order; raise DatasetError if it does not match the manifest."""
        return [_from_row(row) for row in self.open_shard(path).read(use_threads=False).to_pylist()]

    def open_shard(self, path: str) -> pq.ParquetFile:
        """Return one shard as a file in memory; raise DatasetError if it does not match the manifest."""
        info = next(shard for shard in self.manifest.shards if shard.path == path)
        try:
            content = self.store.get_cached(path, info.sha256)
        except FileNotFoundError:
            raise DatasetError(f"{self.store.uri}/{path}: missing; ingest again") from None
        if hashlib.sha256(content).hexdigest() != info.sha256:
            self.store.forget(path)
            raise DatasetError(f"{self.store.uri}/{path}: damaged (its hash differs from the manifest's); ingest again")
        return open_parquet(content)

    def samples(self) -> Iterator[Sample]:
        """Yield all samples in canonical order."""
        for shard in self.manifest.shards:
            yield from self.read_shard(shard.path)

    def media_path(self, sample: Sample, media: Media) -> str:
        """Return the path of a sample's medium relative to the dataset's store."""
        return media_path(next(ref for ref in sample.media if ref.sha256 == media.source))

    def check_fingerprint(self, fingerprint: str) -> None:
        """Raise DatasetError where the data are not those of a fingerprint, with which a run was made."""
        if self.manifest.dataset_fingerprint != fingerprint:
            raise DatasetError(f"{self.store.uri}: changed since the run read it; run its models again")


class SampleReader:
    """Reads samples by id. It holds 12 bytes per sample of the dataset: the hash of its id, and its row group."""

    def __init__(self, dataset: Dataset) -> None:
        """Read the ids of all samples; raise DatasetError if a shard does not match the manifest."""
        self._dataset = dataset
        self._groups: list[tuple[str, int]] = []  # shard, row group in it
        hashes, groups = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        for shard in dataset.manifest.shards:
            file = dataset.open_shard(shard.path)
            for number in range(file.num_row_groups):
                ids = file.read_row_group(number, ["sample_id"], use_threads=False)["sample_id"].to_pylist()
                hashes.append(_hashes(ids))
                groups.append(np.full(len(ids), len(self._groups), np.int32))
                self._groups.append((shard.path, number))
        unsorted = np.concatenate(hashes)
        order = np.argsort(unsorted)
        self._hashes, self._group_of = unsorted[order], np.concatenate(groups)[order]

    def read(self, sample_ids: Collection[str]) -> dict[str, Sample]:
        """Return those of the samples that the dataset has."""
        hashes = _hashes(sample_ids)
        bounds = zip(*(np.searchsorted(self._hashes, hashes, side) for side in ("left", "right")), strict=True)
        numbers_by_shard: dict[str, list[int]] = {}
        for group in sorted({int(group) for start, end in bounds for group in self._group_of[start:end]}):
            path, number = self._groups[group]
            numbers_by_shard.setdefault(path, []).append(number)
        samples: dict[str, Sample] = {}
        for path, numbers in numbers_by_shard.items():
            table = self._dataset.open_shard(path).read_row_groups(numbers, use_threads=False)
            rows = [row for row, name in enumerate(table["sample_id"].to_pylist()) if name in sample_ids]
            samples |= {row["sample_id"]: _from_row(row) for row in table.take(rows).to_pylist()}
        return samples


def _hashes(sample_ids: Collection[str]) -> np.ndarray:
    return np.fromiter(map(hash, sample_ids), np.int64, len(sample_ids))


class Datasets:
    """Opens each dataset of a run once."""

    def __init__(self, stores: Mapping[tuple[str, str], Store] | None = None) -> None:
        """Start with `stores` of datasets that were open before, which may hold shards."""
        self._opened: dict[tuple[str, str], Dataset] = {}
        self._stores = dict(stores or {})

    def open(self, data: str, benchmark: str) -> Dataset:
        """Open `DATA/BENCHMARK`, as `Dataset.open`."""
        key = (data, benchmark)
        if key not in self._opened:
            self._opened[key] = Dataset.open(Store(data), benchmark, self._stores.get(key))
            self._stores[key] = self._opened[key].store
        return self._opened[key]

    def again(self) -> Datasets:
        """Return the same without manifests, to open each dataset as it is now."""
        return Datasets(self._stores)


def media_path(ref: MediaRef) -> str:
    """Return the path of a stored medium relative to the dataset's store."""
    return f"media/{ref.sha256}{ref.extension}"


def _fields(sample: Sample) -> dict[str, Any]:
    """Return the fields of a sample, media as objects; `asdict` copies all data, which takes half of an ingest."""
    return {name: getattr(sample, name) for name in Sample.__slots__} | {"media": [asdict(ref) for ref in sample.media]}


def canonical_json(sample: Sample) -> str:
    """Return the JSON text of a sample from which its hash is computed."""
    return json.dumps(_fields(sample), sort_keys=True, ensure_ascii=True)


def sample_of_json(text: str) -> Sample:
    """Return the sample of a text of `canonical_json`."""
    row = json.loads(text)
    return Sample(**{**row, "media": tuple(MediaRef(**ref) for ref in row["media"])})


def write_shard(store: Store, path: str, samples: Sequence[Sample]) -> ShardInfo:
    """Write one shard with small row groups, which can be read alone."""
    rows = [{**_fields(sample), "data": json.dumps(sample.data, ensure_ascii=True)} for sample in samples]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, SAMPLE_SCHEMA), sink, row_group_size=ROW_GROUP, compression="zstd")
    content = sink.getvalue()
    store.put(path, content)
    return ShardInfo(path=path, rows=len(samples), sha256=hashlib.sha256(content).hexdigest())


def _from_row(row: dict[str, Any]) -> Sample:
    media = tuple(MediaRef(**ref) for ref in row["media"] or ())
    return Sample(**{**row, "media": media, "data": json.loads(row["data"])})


def load_tables(data: str, names: Iterable[str] = ()) -> None:
    """Read the definitions of the table benchmarks under `data`, unless all `names` are benchmarks with code.

    DatasetError for one of the names whose data are damaged; the others' damage is their own.
    """
    named, with_code = set(names), set(code_benchmarks())
    if named and named <= with_code:
        return
    store = Store(data)
    for folder in store.folders():
        if folder in with_code:
            continue
        try:
            table = Dataset.open(store, folder).manifest.table
        except DatasetError:
            if folder in named:
                raise
            continue
        use_tables([(store.uri, table)] if table else [])
