"""Ingest: a benchmark as distributed becomes canonical shards. What is wrong is listed, and the rest goes on."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import logging
import os
import posixpath
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from models.messages import Media
from pipelines.benchmarks.base import (
    Benchmark,
    MediaFile,
    MediaRef,
    Notice,
    RawSample,
    Rejection,
    Sample,
    SourceError,
)
from pipelines.ingest.dataset import Dataset, DatasetError, Manifest, fingerprint, media_path, write_shard
from pipelines.media.decoder import DecodeError, Decoder
from pipelines.storage.errors import StoreError, TooLargeError
from pipelines.storage.store import Store, is_remote
from pipelines.version import __version__

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)

SHARD_ROWS = 1024
LONGEST_PATH, LONGEST_NAME = 1000, 255
"""Characters of a path and bytes of a name that file systems and object stores hold."""
LONGEST_REASON, LONGEST_ITEM = 1000, 200
"""Characters of a rejection: a row that is a megabyte of something is not repeated in the list of rejected rows."""
NAMED = 5
"""Ids named in a message about many."""
CHECKED_FRAMES = 32
"""Frames decoded of every clip at ingest, first and last among them: a clip cut short is found here, not in a run."""


LARGEST_FILE = 1 << 30
"""Bytes of a clip or picture of a source; a file is read whole, so a larger one is refused."""
LARGEST_BY_END = {".json": 256 << 20, ".csv": 256 << 20, ".txt": 256 << 20, ".jsonl": 4 << 30, ".parquet": 4 << 30}
"""Bytes of files of other ends. JSON and CSV are parsed whole, to some twenty times their size; of the benchmarks, none
has a text of more than 7 MB or a Parquet file of more than 1 GB."""


class Folder:
    """A benchmark's source: a read-only folder, local or `s3://`, and what decodes the pictures found in it."""

    def __init__(self, uri: str) -> None:
        self._store = Store(uri)
        self.uri = self._store.uri
        self.decoder = Decoder()
        if not is_remote(self.uri) and not Path(self.uri).is_dir():
            raise SourceError(f"{self.uri}: no such folder")

    def glob(self, pattern: str) -> list[str]:
        """Files that match a pattern relative to the folder, sorted."""
        folder = posixpath.dirname(pattern)
        while any(sign in folder for sign in "*?["):
            folder = posixpath.dirname(folder)
        return [info.path for info in self._store.list(folder) if _matches(info.path, pattern)]

    def exists(self, path: str) -> bool:
        """Whether there is a file; no path out of the folder, and none that no file can have, leads to one."""
        return _is_path(path) and self._store.exists(path)

    def read_bytes(self, path: str) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: there is none.
            SourceError: it is larger than `LARGEST_FILE` or `LARGEST_BY_END` allow.
        """
        if not _is_path(path):
            raise FileNotFoundError(f"{path[:200]!r} is no path of a file in {self.uri}")
        try:
            return self._store.get(path, LARGEST_BY_END.get(posixpath.splitext(path)[1].lower(), LARGEST_FILE))
        except TooLargeError as error:
            raise SourceError(f"{self.uri}/{error}; split it, or fetch the data again") from error

    def pixels(self, content: bytes, max_pixels: int | None = None) -> np.ndarray:
        """A picture's pixels, uint8 [H, W, 3], decoded in a process of its own.

        Raises:
            DecodeError: with the reason.
        """
        picture: np.ndarray = self.decoder.decode_picture(content, max_pixels).pixels[0]
        return picture


def _is_path(path: str) -> bool:
    """Whether a file could lie here: paths come with the data, and may be anything."""
    parts = path.split("/")
    if "\x00" in path or not _is_text(path) or path.startswith("/") or ".." in parts or len(path) > LONGEST_PATH:
        return False
    return all(len(part.encode()) <= LONGEST_NAME for part in parts)


def _matches(path: str, pattern: str) -> bool:
    """As a shell matches: `*` stays within one folder."""
    names, wanted = path.split("/"), pattern.split("/")
    return len(names) == len(wanted) and all(map(fnmatch.fnmatchcase, names, wanted))


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


def _is_text(text: str) -> bool:
    """Whether UTF-8 can hold it: JSON may carry half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text)


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


class _MediaKeeper:
    """Checks and stores media, each content once and each file looked at once."""

    def __init__(self, source: Folder, store: Store, decoder: Decoder) -> None:
        self._source, self._store, self._decoder = source, store, decoder
        self._looked_at: dict[str, MediaRef | DecodeError] = {}
        self.kept: dict[str, MediaRef] = {}

    def keep(self, file: MediaFile) -> MediaRef:
        """Store a medium.

        Raises:
            DecodeError: it is missing or cannot be decoded.
        """
        if file.content is not None:
            return self._checked(file, file.content)
        known = self._looked_at.get(file.path)
        if known is None:
            try:
                known = self._checked(file, self._source.read_bytes(file.path))
            except FileNotFoundError:
                known = DecodeError(f"{file.path}: no such file in {self._source.uri}")
            except StoreError as error:
                if is_remote(self._source.uri):
                    raise  # the store failed, not the file
                known = DecodeError(f"{file.path[:200]}: cannot be read ({type(error.__cause__).__name__})")
            except DecodeError as error:
                known = error
            except SourceError as error:
                known = DecodeError(str(error))  # too large: it costs its own rows
            self._looked_at[file.path] = known
        if isinstance(known, DecodeError):
            raise known
        return replace(known, role=file.role)

    def _checked(self, file: MediaFile, content: bytes) -> MediaRef:
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 in self.kept:
            return replace(self.kept[sha256], role=file.role)
        extension = posixpath.splitext(file.path)[1].lower()
        if not re.fullmatch(r"\.[a-z0-9]{2,5}", extension):
            extension = ".mp4" if file.kind == "video" else ".png"
        wanted = Media(file.kind, sha256, CHECKED_FRAMES if file.kind == "video" else 0)
        with tempfile.NamedTemporaryFile(suffix=extension, prefix=f"vlmsweep-{os.getpid()}-") as local:
            local.write(content)
            local.flush()
            try:
                frames = self._decoder.decode_file(Path(local.name), wanted)
            except DecodeError as error:
                reason = str(error).replace(local.name, posixpath.basename(file.path))
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
        self._store.put(media_path(ref), content)
        self.kept[sha256] = ref
        return ref


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
