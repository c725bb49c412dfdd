"""Convert a benchmark as distributed into canonical shards. Unusable rows are listed and skipped."""

import hashlib
import json
import logging
import posixpath
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from models.guards.regular_files import NotRegularError
from models.messages import Media
from models.scratch import scratch
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.known_tables import TableDefinition
from pipelines.benchmarks.records import (
    REJECTION_MARK,
    MediaFile,
    MediaRef,
    RawSample,
    Rejection,
    Sample,
    SourceWarning,
)
from pipelines.errors import DatasetError, DecodeError, SourceError, StoreError
from pipelines.hashing import stable_json
from pipelines.ingest.dataset import (
    Dataset,
    Manifest,
    canonical_json,
    media_path,
    sample_of_json,
    write_shard,
)
from pipelines.ingest.source_folder import Folder, is_encodable
from pipelines.media.decoder import DECODERS, Decoder
from pipelines.storage.backend import is_remote
from pipelines.storage.lock import exclusive
from pipelines.storage.store import Store, put_named
from pipelines.version import __version__

CHECKED_FRAMES = 32  # frames decoded of every video, including first and last, to find truncated ones


class MediaWriter:
    """Checks and stores media: each file is read once, each content stored once."""

    def __init__(self, source: Folder, store: Store, decoder: Decoder) -> None:
        self._source, self._store, self._decoder = source, store, decoder
        self._results: dict[str, MediaRef | DecodeError] = {}
        self.stored: dict[str, MediaRef] = {}
        self.decoders: dict[str, str] = {}  # as in the manifest

    def write(self, file: MediaFile) -> MediaRef:
        """Check and store a medium; raise DecodeError if it is missing or not decodable."""
        if file.content is not None:
            return self._store_checked(file, file.content)
        result = self._results.get(file.path)
        if result is None:
            try:
                result = self._store_checked(file, self._source.read_bytes(file.path))
            except FileNotFoundError:
                remedy = "; give a path relative to it" if file.path.startswith("/") else ""
                result = DecodeError(f"{file.path}: no such file in {self._source.uri}{remedy}")
            except StoreError as error:
                if is_remote(self._source.uri):
                    raise  # the store failed, not the file
                cause = error.__cause__
                reason = str(cause) if isinstance(cause, NotRegularError) else type(cause).__name__
                result = DecodeError(f"{file.path[:200]}: unreadable ({reason})")
            except DecodeError as error:
                result = error
            except SourceError as error:
                result = DecodeError(str(error))  # too large: only its own rows are rejected
            self._results[file.path] = result
        if isinstance(result, DecodeError):
            raise result
        return replace(result, role=file.role)

    def _store_checked(self, file: MediaFile, content: bytes) -> MediaRef:
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 in self.stored:
            return replace(self.stored[sha256], role=file.role)
        extension = posixpath.splitext(file.path)[1].lower()
        if not re.fullmatch(r"\.[a-z0-9]{2,5}", extension):
            extension = ".mp4" if file.kind == "video" else ".png"
        media = Media(file.kind, sha256, CHECKED_FRAMES if file.kind == "video" else 0)
        with scratch() as folder:
            local = folder / f"medium{extension}"
            local.write_bytes(content)
            try:
                if file.kind == "video":
                    frames, decoders = self._decoder.checked_decoders(local, media)
                else:
                    frames, decoders = self._decoder.decode_file(local, media), DECODERS
            except DecodeError as error:
                reason = str(error).replace(str(local), posixpath.basename(file.path))
                raise DecodeError(f"{file.path}: cannot be decoded ({reason})") from error
        _, height, width, _ = frames.pixels.shape
        ref = MediaRef(
            role=file.role,
            kind=file.kind,
            sha256=sha256,
            extension=extension,
            bytes=len(content),
            width=width,
            height=height,
            frames=frames.total_frames,
            fps=frames.fps,
        )
        if decoders != DECODERS:
            self.decoders[sha256] = ",".join(decoders)
        self._store.put(media_path(ref), content)
        self.stored[sha256] = ref
        return ref


log = logging.getLogger(__name__)

SHARD_ROWS = 1024
MAX_REASON, MAX_ITEM = 1000, 200  # characters of a rejection; a row may be a megabyte
MAX_ROW_TEXT = 4 << 20  # characters of the texts of a row: a million tokens
MAX_NAMED = 5  # ids named in a message
_MAX_REPEATED = 0.02  # of the rows of a table; with more the column holds no ids
_DUPLICATE = "duplicate id; the first row of this id is kept"


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The manifest that was written, and the rejected rows."""

    manifest: Manifest
    rejections: tuple[Rejection, ...]


def ingest_benchmark(
    benchmark: BenchmarkDefinition,
    source: Folder,
    data: Store,
    *,
    column_map: Mapping[str, str] | None = None,
    table: TableDefinition | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> IngestResult:
    """Read, check and store one benchmark under `data/BENCHMARK`.

    `column_map` maps our column names to the source's, for benchmarks that accept one; `table` is the definition of a
    table benchmark, stored with the data; `progress` receives the number of rows read so far. Raises SourceError if the
    source has no data of this benchmark, or no usable row.
    """
    if unknown := sorted(set(column_map or {}) - set(benchmark.column_map_names)):
        names = ", ".join(benchmark.column_map_names) or f"none, {benchmark.name} has fixed columns"
        raise SourceError(f"--column-map: unknown name {unknown[0]!r}; names: {names}")
    store = data.sub(benchmark.name)
    store.check_writable()
    with exclusive(store, "--data"):
        return _ingest(benchmark, source, data, column_map=column_map or {}, table=table, progress=progress)


def _ingest(
    benchmark: BenchmarkDefinition,
    source: Folder,
    data: Store,
    *,
    column_map: Mapping[str, str],
    table: TableDefinition | None,
    progress: Callable[[int], None],
) -> IngestResult:
    store = data.sub(benchmark.name)
    with scratch() as folder, closing(SampleSpool(folder / "samples.sqlite")) as samples:
        with source.decoder as decoder:
            writer = MediaWriter(source, store, decoder)
            items = benchmark.source(source, column_map)
            rejections, warnings = _collect(items, benchmark.name, writer, samples, progress)
        rejections = _write_rejections(store, rejections)
        if not samples:
            first = f"; first: {rejections[0].item}: {rejections[0].reason}" if rejections else ""
            columns = f"; columns: {table.described_columns}" if table else ""
            raise SourceError(f"{source.uri}: no usable row, {len(rejections)} rejected{first}{columns}")
        if table:
            _check_ids(rejections, len(samples), table, source.uri)
        if warning := _changed_content_warning(data, benchmark, samples):
            log.warning("%s: %s", benchmark.name, warning)
            warnings.append(warning)
        # Shard names contain the fingerprint, so that an older manifest stays valid until the new one replaces it.
        name = samples.fingerprint(table)
        shards = [
            write_shard(store, f"samples/{name[:12]}-{index:05d}.parquet", part)
            for index, part in enumerate(_parts(samples))
        ]
        counts = samples.counts
    manifest = Manifest(
        benchmark=benchmark.name,
        dataset_fingerprint=name,
        source=source.uri,
        samples=counts.total(),
        rejected=len(rejections),
        media=len(writer.stored),
        media_bytes=sum(ref.bytes for ref in writer.stored.values()),
        counts=dict(sorted(counts.items())),
        shards=tuple(shards),
        notices=tuple(warnings),
        product_version=__version__,
        decoders=dict(sorted(writer.decoders.items())),
        table=table,
    )
    put_named(store, "manifest.json", manifest.to_json(), b'"shards"')
    store.delete_all("samples", {shard.path for shard in shards})
    return IngestResult(manifest, tuple(rejections))


def _check_ids(rejections: Sequence[Rejection], kept: int, table: TableDefinition, where: str) -> None:
    """Raise SourceError for a column of ids that repeats so many that it is none."""
    repeated = [rejection for rejection in rejections if rejection.reason == _DUPLICATE]
    if "id" in table.columns and len(repeated) > max(1, _MAX_REPEATED * (kept + len(repeated))):
        column = table.columns["id"][0]
        raise SourceError(
            f"{where}: column {column!r} holds no ids: {len(repeated):,} of {kept + len(repeated):,} rows repeat one, "
            f"first {repeated[0].file}, {repeated[0].item}; name another in a columns file (`id: COLUMN`, or "
            f"`ignore: [{column}]` for numbers of rows, --columns FILE.yaml)"
        )


def _write_rejections(store: Store, rejections: Sequence[Rejection]) -> list[Rejection]:
    clipped = [
        replace(rejection, reason=_clip(rejection.reason, MAX_REASON), item=_clip(rejection.item, MAX_ITEM))
        for rejection in rejections
    ]
    lines = [json.dumps(asdict(rejection), ensure_ascii=True).encode() + b"\n" for rejection in clipped]
    put_named(store, "rejected.jsonl", b"".join(lines), REJECTION_MARK)
    return clipped


def _collect(
    items: Iterable[RawSample | Rejection | SourceWarning],
    name: str,
    writer: MediaWriter,
    samples: "SampleSpool",
    progress: Callable[[int], None],
) -> tuple[list[Rejection], list[str]]:
    """Add the samples of a source; return its rejections and warnings."""
    rejections: list[Rejection] = []
    warnings: list[str] = []
    rows = 0
    for item in items:
        if isinstance(item, SourceWarning):
            log.warning("%s: %s", name, item.message)
            warnings.append(item.message)
            continue
        rows += 1
        progress(rows)
        if isinstance(item, Rejection):
            rejections.append(item)
        elif not is_encodable(item.sample_id) or not is_encodable(item.category):
            reason = "the id or the category contains half a surrogate pair"
            rejections.append(Rejection(file=item.file, item=repr(item.sample_id)[1:-1], reason=reason))
        elif item.sample_id in samples:
            rejections.append(Rejection(file=item.file, item=item.place or item.sample_id, reason=_DUPLICATE))
        else:
            try:
                samples.add(_write_sample(item, writer))
            except (DecodeError, _TooLongError) as error:
                rejections.append(Rejection(file=item.file, item=item.place or item.sample_id, reason=str(error)))
    return rejections, warnings


def _changed_content_warning(data: Store, benchmark: BenchmarkDefinition, samples: Iterable[Sample]) -> str:
    """Return a warning about ids whose content differs from that of the previous ingest, or ''."""
    field = benchmark.content_field
    if not field:
        return ""
    try:
        previous = Dataset.open(data, benchmark.name).samples()
        before = {sample.sample_id: sample.data.get(field) for sample in previous}
    except DatasetError:
        return ""  # nothing was ingested before, or it is unreadable now
    changed = [
        sample.sample_id for sample in samples if before.get(sample.sample_id, sample.data[field]) != sample.data[field]
    ]
    if not changed:
        return ""
    more = f" and {len(changed) - MAX_NAMED:,} more" if len(changed) > MAX_NAMED else ""
    return (
        f"content differs from the previous ingest under the same id: {', '.join(changed[:MAX_NAMED])}{more}; ids are "
        "positions in the source's files, so imported answers to the old rows do not belong to the new ones"
    )


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


class _TooLongError(ValueError):
    """The texts of a row are larger than a prompt can be."""


def _text_bytes(value: object) -> int:
    if isinstance(value, Mapping):
        return sum(_text_bytes(name) + _text_bytes(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_text_bytes, value))
    return len(value) if isinstance(value, str) else 8


def _write_sample(raw: RawSample, writer: MediaWriter) -> Sample:
    size = _text_bytes(raw.data) + len(raw.sample_id) + len(raw.category) + len(raw.subset)
    if size > MAX_ROW_TEXT:
        raise _TooLongError(f"its texts have {size:,} characters, more than the limit of {MAX_ROW_TEXT:,} for a row")
    media = tuple(writer.write(file) for file in raw.media)
    cluster = raw.cluster or (media[0].sha256 if media else raw.sample_id)
    return Sample(
        sample_id=raw.sample_id,
        category=raw.category,
        subset=raw.subset,
        cluster=cluster,
        media=media,
        data=raw.data,
    )


def _parts(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """Yield shards of about SHARD_ROWS rows, split between clusters unless a cluster itself is larger."""
    part: list[Sample] = []
    for sample in samples:
        is_boundary = bool(part) and part[-1].cluster != sample.cluster
        if len(part) >= SHARD_ROWS and (is_boundary or len(part) >= 2 * SHARD_ROWS):
            yield part
            part = []
        part.append(sample)
    if part:
        yield part


_SCHEMA = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE samples (place INTEGER PRIMARY KEY, id TEXT UNIQUE, cluster INTEGER, digest BLOB, content TEXT);
    CREATE TABLE clusters (place INTEGER PRIMARY KEY, name TEXT UNIQUE);
"""


class SampleSpool:
    """Holds the samples of an ingest in a file; iterated, those of one cluster are adjacent, clusters as they came."""

    def __init__(self, path: Path) -> None:
        self._rows = sqlite3.connect(path, isolation_level=None)
        self._rows.executescript(_SCHEMA)
        self._rows.execute("BEGIN")
        self.counts: Counter[str] = Counter()
        """Samples by category."""

    def __len__(self) -> int:
        return self.counts.total()

    def __contains__(self, sample_id: str) -> bool:
        return self._rows.execute("SELECT 1 FROM samples WHERE id = ?", (sample_id,)).fetchone() is not None

    def add(self, sample: Sample) -> None:
        """Add a sample whose id is not in it."""
        content = canonical_json(sample)
        self._rows.execute("INSERT OR IGNORE INTO clusters (name) VALUES (?)", (sample.cluster,))
        self._rows.execute(
            "INSERT INTO samples (id, cluster, digest, content) "
            "VALUES (?, (SELECT place FROM clusters WHERE name = ?), ?, ?)",
            (sample.sample_id, sample.cluster, hashlib.sha256(content.encode()).digest(), content),
        )
        self.counts[sample.category] += 1

    def __iter__(self) -> Iterator[Sample]:
        rows = self._rows.execute("SELECT content FROM samples ORDER BY cluster, place")
        return (sample_of_json(content) for (content,) in rows)

    def fingerprint(self, table: TableDefinition | None) -> str:
        """Return a hash of the samples, in any order, and of a table's definition; media count by content."""
        total = hashlib.sha256(b"" if table is None else stable_json(asdict(table)).encode())
        for (digest,) in self._rows.execute("SELECT digest FROM samples ORDER BY digest"):
            total.update(digest)
        return total.hexdigest()[:32]

    def close(self) -> None:
        """Close the file."""
        self._rows.close()
