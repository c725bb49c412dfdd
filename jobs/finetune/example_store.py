"""The examples of a training, copied into its output once: a resumed training reads what the first one read.

The copy also gives workers of a cluster random access to pictures that come inside Parquet files.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from jobs.finetune.checkpoints import EXAMPLES, ExampleCounts, ExampleRow, TrainingListener
from models.messages import Frames, Media
from pipelines.benchmarks.records import Rejection
from pipelines.errors import DecodeError, SourceError, StoreError
from pipelines.json_records import MalformedError, dump_checked, load_checked
from pipelines.media.decoder import Decoder, blank_frames
from pipelines.storage.store import Store

if TYPE_CHECKING:
    from jobs.finetune.examples import TrainingExample

log = logging.getLogger(__name__)

_COMPLETE: Final = f"{EXAMPLES}/complete.json"  # written last
_PICTURES: Final = f"{EXAMPLES}/pictures"
_COLUMNS: Final = ("example_id", "instruction", "answer", "picture")
_READ_EVERY: Final = 100  # rows between reports
_NAMED: Final = 3  # bad rows that an error names
TRAIN, VALIDATION = "train", "validation"


class ExampleWriter:
    """Checks and copies rows; a bad row ends the copy, or is skipped."""

    def __init__(self, out: Store, listener: TrainingListener, *, skip_bad_rows: bool) -> None:
        self._out, self._listener, self._skip = out, listener, skip_bad_rows
        self._digest = hashlib.sha256()
        self._sources: dict[str, str] = {}  # picture key -> source of its `Media`
        self._unusable: dict[str, str] = {}  # picture key -> why it cannot be decoded
        self._decoder = Decoder()
        self._ids: set[str] = set()
        self.rejections: list[str] = []

    def write(self, split: str, rows: Iterable[ExampleRow | Rejection]) -> int:
        """Copy the rows of a split; return their number. SourceError names rows that cannot be used."""
        examples = list(self._usable(rows))
        if self.rejections and not self._skip:
            shown = "; ".join(self.rejections[:_NAMED])
            more = len(self.rejections) - _NAMED
            raise SourceError(
                f"{shown}{f'; and {more} more rows' if more > 0 else ''}. Fix these rows, or leave them out with "
                "--skip-bad-rows"
            )
        self._out.put(f"{EXAMPLES}/{split}.parquet", _to_parquet(examples))
        return len(examples)

    def finish(self, counts: Mapping[str, int], identity: Mapping[str, Any]) -> ExampleCounts:
        """Mark the copy as complete; `identity` is compared by `stored_counts`."""
        self._decoder.close()
        result = ExampleCounts(
            train=counts[TRAIN],
            validation=counts.get(VALIDATION, 0),
            fingerprint=self._digest.hexdigest(),
            skipped=tuple(self.rejections),
        )
        content = json.loads(json.dumps({"identity": identity, "counts": asdict(result)}))
        self._out.put(_COMPLETE, dump_checked(content))
        return result

    def _usable(self, rows: Iterable[ExampleRow | Rejection]) -> Iterator[dict[str, str]]:
        for number, row in enumerate(rows, start=1):
            if number % _READ_EVERY == 0:
                self._listener.read(_READ_EVERY)
            if isinstance(row, Rejection):
                self.rejections.append(f"{row.file}: {row.item}: {row.reason}")
            elif problem := self._problem(row):
                self.rejections.append(f"{row.file}: {row.row_id}: {problem}")
            else:
                self._ids.add(row.row_id)
                values = (row.row_id, row.instruction, row.answer, self._sources[row.picture])
                example = dict(zip(_COLUMNS, values, strict=True))
                self._digest.update(json.dumps(example).encode())
                yield example

    def _problem(self, row: ExampleRow) -> str:
        """Return why a row cannot be used, '' if it can; store its picture, which later rows may share."""
        key = row.picture
        if key not in self._sources and key not in self._unusable:
            if row.content is None:
                self._sources[key] = key  # the white square
            else:
                self._store_picture(key, row.content)
        if row.row_id in self._ids:
            return "duplicate id"
        return self._unusable.get(key, "")

    def _store_picture(self, key: str, content: bytes) -> None:
        try:
            self._decoder.decode_picture(content)
        except DecodeError as error:
            self._unusable[key] = f"its picture cannot be decoded: {error}"
            return
        sha256 = hashlib.sha256(content).hexdigest()
        self._out.put(f"{_PICTURES}/{sha256}", content)
        self._sources[key] = sha256


def stored_counts(out: Store, identity: Mapping[str, Any]) -> ExampleCounts | None:
    """Return the counts of a complete copy made from the same sources; None if there is none."""
    try:
        stored = load_checked(out.get(_COMPLETE))
        if stored["identity"] != identity:
            return None
        counts = ExampleCounts(**{**stored["counts"], "skipped": tuple(stored["counts"]["skipped"])})
        splits = (TRAIN, VALIDATION) if counts.validation else (TRAIN,)
        rows = [row for split in splits for row in _read_table(out, split).to_pylist()]
    except FileNotFoundError:
        return None
    except (MalformedError, StoreError, KeyError, TypeError) as error:
        log.warning("%s/%s is damaged (%s); the examples are copied again", out.uri, EXAMPLES, error)
        return None
    digest = hashlib.sha256(b"".join(json.dumps(row).encode() for row in rows)).hexdigest()
    if digest != counts.fingerprint:
        log.warning("%s/%s holds other examples than were copied; they are copied again", out.uri, EXAMPLES)
        return None
    return counts


def delete_examples(out: Store) -> None:
    """Delete the copy, its marker first."""
    out.delete(_COMPLETE)
    out.delete_all(EXAMPLES)


class ExampleSet:
    """The copied examples of a split, as a worker reads them."""

    def __init__(self, out: Store, split: str) -> None:
        self._out = out
        self._table = _read_table(out, split)
        self._decoder = Decoder()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def get(self, indices: Sequence[int]) -> "tuple[list[TrainingExample], dict[Media, Frames]]":
        """Return examples by index, and the decoded pictures that they show."""
        from jobs.finetune.examples import TrainingExample

        rows = self._table.take(pa.array(list(indices), pa.int64())).to_pylist()
        examples = [TrainingExample(**{**row, "picture": Media("image", row["picture"])}) for row in rows]
        return examples, {media: self._frames(media) for media in {example.picture for example in examples}}

    def _frames(self, media: Media) -> Frames:
        if media.source.startswith("blank:"):
            return blank_frames(media)
        path = f"{_PICTURES}/{media.source}"
        try:
            return self._decoder.decode(self._out, path, media)
        except DecodeError as error:
            remedy = f"delete {_COMPLETE}, and the same command copies the examples again"
            raise StoreError(f"{self._out.uri}/{path}: damaged ({error}); {remedy}") from error


def _to_parquet(examples: Sequence[Mapping[str, str]]) -> bytes:
    from pipelines.storage.parts import to_parquet

    return to_parquet(examples, pa.schema([(name, pa.string()) for name in _COLUMNS]))


def _read_table(out: Store, split: str) -> pa.Table:
    from pipelines.storage.parts import read_part

    try:
        return read_part(out, f"{EXAMPLES}/{split}.parquet")
    except FileNotFoundError as error:
        raise StoreError(
            f"{out.uri}/{EXAMPLES}/{split}.parquet is not there for this worker; --out must be a folder that all nodes "
            "share, or s3://"
        ) from error
