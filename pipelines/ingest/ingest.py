"""Ingest: a benchmark as distributed becomes canonical shards. What is wrong is listed, and the rest goes on."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from pipelines.benchmarks.base import Benchmark
from pipelines.benchmarks.records import Notice, RawSample, Rejection, Sample
from pipelines.errors import DatasetError, DecodeError, SourceError
from pipelines.ingest.dataset import Dataset, Manifest, fingerprint, write_shard
from pipelines.ingest.media_writer import _MediaKeeper
from pipelines.ingest.source_folder import Folder, _is_text
from pipelines.storage.store import Store
from pipelines.version import __version__

log = logging.getLogger(__name__)

SHARD_ROWS = 1024
LONGEST_REASON, LONGEST_ITEM = 1000, 200
"""Characters of a rejection: a row that is a megabyte of something is not repeated in the list of rejected rows."""
NAMED = 5
"""Ids named in a message about many."""


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What ingest did."""

    manifest: Manifest
    rejections: tuple[Rejection, ...]


def ingest(
    benchmark: Benchmark,
    source: Folder,
    data: Store,
    *,
    column_map: Mapping[str, str] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> IngestResult:
    """Read, check and store one benchmark under `data/BENCHMARK`.

    Args:
        benchmark: whose form the source has.
        source: the folder as distributed.
        data: the store of canonical data.
        column_map: our name -> the source's, for benchmarks that take one.
        progress: called with the number of rows seen so far.

    Raises:
        SourceError: there is no data of this benchmark, or no row of it can be used.
    """
    unknown = sorted(set(column_map or {}) - set(benchmark.column_map_names))
    if unknown:
        known = ", ".join(benchmark.column_map_names) or f"none, {benchmark.name} has fixed forms"
        raise SourceError(f"--column-map: {unknown[0]!r} is no name of ours; names: {known}")
    store = data.sub(benchmark.name)
    store.check_writable()
    with source.decoder as decoder:
        keeper = _MediaKeeper(source, store, decoder)
        samples, rejections, notices = _collect(
            benchmark.read(source, column_map=column_map), benchmark.name, keeper, progress
        )
    rejections = [
        replace(one, reason=_clipped(one.reason, LONGEST_REASON), item=_clipped(one.item, LONGEST_ITEM))
        for one in rejections
    ]
    store.put("rejected.jsonl", b"".join(json.dumps(asdict(r), ensure_ascii=True).encode() + b"\n" for r in rejections))
    if not samples:
        first = f"; the first: {rejections[0].item}: {rejections[0].reason}" if rejections else ""
        raise SourceError(f"{source.uri}: no row can be used, {len(rejections)} rejected{first}")
    if moved := _moved(data, benchmark, samples):
        log.warning("%s: %s", benchmark.name, moved)
        notices.append(moved)
    # Shards are named by the content of the whole, so that an older manifest stays true until the new one replaces it.
    name = fingerprint(samples)
    shards = [
        write_shard(store, f"samples/{name[:12]}-{index:05d}.parquet", part)
        for index, part in enumerate(_parts(samples))
    ]
    manifest = Manifest(
        benchmark=benchmark.name,
        dataset_fingerprint=name,
        source=source.uri,
        samples=len(samples),
        rejected=len(rejections),
        media=len(keeper.kept),
        media_bytes=sum(ref.bytes for ref in keeper.kept.values()),
        counts=dict(sorted(Counter(sample.category for sample in samples).items())),
        shards=tuple(shards),
        notices=tuple(notices),
        product_version=__version__,
    )
    store.put("manifest.json", manifest.to_json())
    for old in {info.path for info in store.list("samples")} - {shard.path for shard in shards}:
        store.delete(old)
    return IngestResult(manifest, tuple(rejections))


def _collect(
    items: Iterable[RawSample | Rejection | Notice], name: str, keeper: _MediaKeeper, progress: Callable[[int], None]
) -> tuple[list[Sample], list[Rejection], list[str]]:
    """Every row of the source as a sample, a rejection or a notice; samples of one cluster stand together."""
    clusters: dict[str, list[Sample]] = {}
    rejections: list[Rejection] = []
    notices: list[str] = []
    seen: set[str] = set()
    for count, item in enumerate(items, start=1):
        progress(count)
        if isinstance(item, Notice):
            log.warning("%s: %s", name, item.message)
            notices.append(item.message)
        elif isinstance(item, Rejection):
            rejections.append(item)
        elif not _is_text(item.sample_id) or not _is_text(item.category):
            reason = "the id or the category holds half a character"
            rejections.append(Rejection(file=item.file, item=repr(item.sample_id)[1:-1], reason=reason))
        elif item.sample_id in seen:
            rejections.append(
                Rejection(file=item.file, item=item.sample_id, reason="duplicate id; the first row of this id is kept")
            )
        else:
            seen.add(item.sample_id)
            try:
                sample = _sample(item, keeper)
            except DecodeError as error:
                rejections.append(Rejection(file=item.file, item=item.sample_id, reason=str(error)))
                continue
            clusters.setdefault(sample.cluster, []).append(sample)
    return [sample for members in clusters.values() for sample in members], rejections, notices


def _moved(data: Store, benchmark: Benchmark, samples: Sequence[Sample]) -> str:
    """What to tell of ids that stood for something else when this benchmark was last read in; '' for none."""
    field = benchmark.content_field
    if not field:
        return ""
    try:
        before = {old.sample_id: old.data.get(field) for old in Dataset.open(data, benchmark.name).samples()}
    except DatasetError:
        return ""  # nothing was read in before, or nothing that can be read any more
    moved = [new.sample_id for new in samples if before.get(new.sample_id, new.data[field]) != new.data[field]]
    if not moved:
        return ""
    more = f" and {len(moved) - NAMED:,} more" if len(moved) > NAMED else ""
    return (
        f"other content than at the last ingest under the same id: {', '.join(moved[:NAMED])}{more}; ids are places in "
        "the source's files, so answers made elsewhere to the old rows do not belong to the new ones"
    )


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _sample(raw: RawSample, keeper: _MediaKeeper) -> Sample:
    media = tuple(keeper.keep(file) for file in raw.media)
    cluster = raw.cluster or (media[0].sha256 if media else raw.sample_id)
    return Sample(
        sample_id=raw.sample_id,
        category=raw.category,
        subset=raw.subset,
        cluster=cluster,
        media=media,
        data=raw.data,
    )


def _parts(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    """Shards of about SHARD_ROWS rows; one ends only where a cluster ends, unless the cluster itself is larger."""
    part: list[Sample] = []
    for index, sample in enumerate(samples):
        part.append(sample)
        last = index + 1 == len(samples)
        boundary = last or samples[index + 1].cluster != sample.cluster
        if last or (len(part) >= SHARD_ROWS and (boundary or len(part) >= 2 * SHARD_ROWS)):
            yield part
            part = []
