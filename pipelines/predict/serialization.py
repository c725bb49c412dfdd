"""Serialize units for Ray's object store: a row holds a head as JSON, and bytes that are read without a copy."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa

from models.message_codec import dump_requests, load_requests
from models.messages import Frames, Media
from pipelines.media.decoder import blank_frames, frames_from_header
from pipelines.plan.units import WorkUnit
from pipelines.predict.loader import Loaded
from pipelines.predict.records import AnsweredUnit, Receipt, ReplicaSpan
from pipelines.schemas import PREDICTIONS, prediction_table

_BLOBS = pa.large_list(pa.large_binary())
_BLANK = "blank:"


def _pack(head: Any, blobs: Sequence[Any] = ()) -> pa.Table:
    return pa.table(
        {
            "head": pa.array([json.dumps(head).encode()], pa.large_binary()),
            "blobs": pa.array([[memoryview(blob) for blob in blobs]], _BLOBS),
        }
    )


def _head(table: pa.Table) -> Any:
    return json.loads(table["head"][0].as_py())


def _blobs(table: pa.Table) -> Iterator[pa.Buffer]:
    values = table["blobs"].chunk(0)[0].values
    return (values[index].as_buffer() for index in range(len(values)))


def pack_batch(units: Sequence[WorkUnit], exclusive_groups: Sequence[str]) -> bytes:
    """Pack units that are loaded together, and the media groups that no other batch needs."""
    return json.dumps({"units": [unit.to_dict() for unit in units], "groups": exclusive_groups}).encode()


def unpack_batch(table: pa.Table) -> tuple[list[WorkUnit], frozenset[str]]:
    """Return what `pack_batch` packed from the only row of a table."""
    row = json.loads(table["batch"][0].as_py())
    return [WorkUnit.from_dict(raw) for raw in row["units"]], frozenset(row["groups"])


def pack_units(batch: Sequence[Loaded]) -> pa.Table:
    """Pack a batch of units into one row; pixels that they share are in it once, a single-colour clip as its name."""
    media: list[dict[str, Any]] = []
    blobs: list[Any] = []
    for loaded in batch:
        rows = list(loaded.columns.values())
        columns = pa.Table.from_pylist(rows, pa.schema([PREDICTIONS.field(name) for name in rows[0]]))
        blobs += [_to_ipc(columns), dump_requests(loaded.requests)]
        blobs.append(_to_ipc(prediction_table(loaded.ready)))
    for medium, frames in {medium: frames for loaded in batch for medium, frames in loaded.media.items()}.items():
        head = {**asdict(medium), "shape": frames.pixels.shape}
        media.append(head)
        if medium.source.startswith(_BLANK):
            continue
        head |= {"seconds": frames.seconds, "fps": frames.fps, "total": frames.total_frames}
        head["encoded"] = frames.encoded is not None
        blobs.append(pa.py_buffer(np.ascontiguousarray(frames.pixels)))
        if frames.encoded is not None:
            blobs.append(pa.py_buffer(frames.encoded))
    return _pack({"units": [loaded.unit.to_dict() for loaded in batch], "media": media}, blobs)


def count_units(table: pa.Table) -> int:
    """Return the units in a row of `pack_units`."""
    return len(_head(table)["units"])


def unpack_units(table: pa.Table) -> Iterator[Loaded]:
    """Yield the units of a row; each gets the pixels of all, as read-only views of the row."""
    head, blobs = _head(table), _blobs(table)
    contents = [(next(blobs), next(blobs), next(blobs)) for _ in head["units"]]
    media = dict(_unpack_medium(raw, blobs) for raw in head["media"])
    for unit, (columns, requests, ready) in zip(head["units"], contents, strict=True):
        yield Loaded(
            unit=WorkUnit.from_dict(unit),
            columns={row["request_id"]: row for row in _from_ipc(columns).to_pylist()},
            requests=load_requests(requests.to_pybytes()),
            media=media,
            ready=_from_ipc(ready).to_pylist(),
        )


def _unpack_medium(head: Mapping[str, Any], blobs: Iterator[pa.Buffer]) -> tuple[Media, Frames]:
    medium = Media(head["kind"], head["source"], head["frames"])
    if medium.source.startswith(_BLANK):
        is_video = medium.kind == "video"
        return medium, blank_frames(replace(medium, frames=head["shape"][0]) if is_video else medium)
    pixels = np.frombuffer(next(blobs), np.uint8).reshape(head["shape"])
    return medium, frames_from_header(head, pixels, next(blobs).to_pybytes() if head["encoded"] else None)


def pack_answers(answers: Sequence[AnsweredUnit]) -> pa.Table:
    """Pack answered units into one row."""
    heads = [
        {
            "unit": answered.unit.to_dict(),
            "fatal": answered.fatal,
            "is_committed": answered.is_committed,
            "span": asdict(answered.span),
            "warnings": answered.warnings,
        }
        for answered in answers
    ]
    return _pack(heads, [_to_ipc(answered.rows) for answered in answers])


def unpack_answers(table: pa.Table) -> Iterator[AnsweredUnit]:
    """Yield the answered units of a row."""
    for head, content in zip(_head(table), _blobs(table), strict=True):
        unit, span = WorkUnit.from_dict(head["unit"]), ReplicaSpan(**head["span"])
        warnings, rows = tuple(head["warnings"]), _from_ipc(content)
        yield AnsweredUnit(**{**head, "unit": unit, "span": span, "warnings": warnings, "rows": rows})


def pack_receipts(receipts: Sequence[Receipt]) -> pa.Table:
    """Pack receipts into one row."""
    return _pack([receipt.to_dict() for receipt in receipts])


def unpack_receipts(row: Mapping[str, Any]) -> list[Receipt]:
    """Return the receipts of a row, as Ray Data yields it."""
    return [Receipt.from_dict(raw) for raw in json.loads(row["head"])]


def _to_ipc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _from_ipc(content: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()
