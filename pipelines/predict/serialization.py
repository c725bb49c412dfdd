"""Serialize units for Ray's object store as Arrow rows, whose pixels are read without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

_TEXT, _NUMBER, _INTEGER, _INTEGERS, _FLAG = pa.string(), pa.float64(), pa.int64(), pa.list_(pa.int64()), pa.bool_()
_BLOBS = pa.large_list(pa.large_binary())
_SLICE = pa.struct({"plan_part": _TEXT, "group": _TEXT, "runs": _INTEGERS})
_UNIT = pa.struct(
    {
        "benchmark": _TEXT,
        "part": _TEXT,
        "slices": pa.list_(_SLICE),
        "requests": _INTEGER,
        "media_bytes": _INTEGER,
        "retried": pa.list_(_TEXT),
    }
)
_MEDIUM = pa.struct(
    {
        "kind": _TEXT,
        "source": _TEXT,
        "frames": _INTEGER,
        "shape": _INTEGERS,
        "seconds": pa.list_(_NUMBER),
        "fps": _NUMBER,
        "total": _INTEGER,
        "encoded": _FLAG,
    }
)
_SPAN = pa.struct({"replica": _TEXT, "began": _NUMBER, "ended": _NUMBER})
_ANSWERED = pa.struct({"unit": _UNIT, "fatal": _TEXT, "is_committed": _FLAG, "span": _SPAN})
_COUNT = pa.struct({"task": _TEXT, "setting": _TEXT, "status": _TEXT, "rows": _INTEGER})
_RECEIPT = pa.struct(
    {
        "part": _TEXT,
        "counts": pa.list_(_COUNT),
        "replica": _TEXT,
        "began": _NUMBER,
        "ended": _NUMBER,
        "tokens": _INTEGERS,
        "cost_limit_reached": _FLAG,
        "cached": _INTEGER,
        "failed": pa.list_(pa.struct({"request_id": _TEXT, "error_type": _TEXT})),
        "fatal": _TEXT,
    }
)


def pack_batch(units: Sequence[WorkUnit], exclusive_groups: Sequence[str]) -> bytes:
    """Pack units that are loaded together, and the media groups that no other batch needs."""
    groups = pa.array([exclusive_groups], pa.list_(_TEXT))
    return _to_ipc(pa.table({"units": _in_one_row([unit.to_dict() for unit in units], _UNIT), "groups": groups}))


def unpack_batch(table: pa.Table) -> tuple[list[WorkUnit], frozenset[str]]:
    """Return what `pack_batch` packed from the only row of a table."""
    (row,) = _from_ipc(table["batch"][0]).to_pylist()
    return [WorkUnit.from_dict(raw) for raw in row["units"]], frozenset(row["groups"])


def _in_one_row(records: Sequence[dict[str, Any]], kind: pa.DataType) -> pa.Array:
    return pa.array([records], pa.list_(kind))


def pack_units(batch: Sequence[Loaded]) -> pa.Table:
    """Pack a batch of units into one row; pixels that they share are in it once, a single-colour clip as its name."""
    heads: list[dict[str, Any]] = []
    blobs: list[Any] = []
    for media, frames in {media: frames for loaded in batch for media, frames in loaded.media.items()}.items():
        head = {"kind": media.kind, "source": media.source, "frames": media.frames, "shape": frames.pixels.shape}
        if media.source.startswith("blank:"):
            heads.append(head)
            continue
        head |= {"seconds": frames.seconds, "fps": frames.fps, "total": frames.total_frames}
        heads.append({**head, "encoded": frames.encoded is not None})
        blobs.append(pa.py_buffer(np.ascontiguousarray(frames.pixels)))
        if frames.encoded is not None:
            blobs.append(pa.py_buffer(frames.encoded))
    return pa.table(
        {
            "units": _in_one_row([loaded.unit.to_dict() for loaded in batch], _UNIT),
            "columns": pa.array([[_to_ipc(_columns_table(loaded)) for loaded in batch]], _BLOBS),
            "requests": pa.array([[dump_requests(loaded.requests) for loaded in batch]], _BLOBS),
            "ready": pa.array([[_to_ipc(prediction_table(loaded.ready)) for loaded in batch]], _BLOBS),
            "heads": _in_one_row(heads, _MEDIUM),
            "blobs": pa.array([[memoryview(blob) for blob in blobs]], _BLOBS),
        }
    )


def _columns_table(loaded: Loaded) -> pa.Table:
    rows = list(loaded.columns.values())
    return pa.Table.from_pylist(rows, pa.schema([PREDICTIONS.field(name) for name in rows[0]]))


def unpack_units(table: pa.Table) -> Iterator[Loaded]:
    """Yield the units of a row; each gets the pixels of all, as read-only views of the row."""
    media = _unpack_media(table)
    lists = [table[name].chunk(0)[0].values for name in ("units", "columns", "requests", "ready")]
    for unit, columns, requests, ready in zip(*lists, strict=True):
        yield Loaded(
            unit=WorkUnit.from_dict(unit.as_py()),
            columns={row["request_id"]: row for row in _from_ipc(columns).to_pylist()},
            requests=load_requests(requests.as_py()),
            media=media,
            ready=_from_ipc(ready).to_pylist(),
        )


def _unpack_media(table: pa.Table) -> dict[Media, Frames]:
    values = table["blobs"].chunk(0)[0].values
    views = iter([memoryview(values[i].as_buffer()) for i in range(len(values))])
    media_frames: dict[Media, Frames] = {}
    for head in table["heads"][0].as_py():
        media = Media(head["kind"], head["source"], head["frames"])
        if media.source.startswith("blank:"):
            is_video = media.kind == "video"
            media_frames[media] = blank_frames(replace(media, frames=head["shape"][0]) if is_video else media)
            continue
        pixels = np.frombuffer(next(views), np.uint8).reshape(head["shape"])
        encoded = bytes(next(views)) if head["encoded"] else None
        media_frames[media] = frames_from_header(head, pixels, encoded)
    return media_frames


def pack_answers(answers: Sequence[AnsweredUnit]) -> pa.Table:
    """Pack answered units into one row."""
    heads = [
        {
            "unit": answered.unit.to_dict(),
            "fatal": answered.fatal,
            "is_committed": answered.is_committed,
            "span": asdict(answered.span),
        }
        for answered in answers
    ]
    return pa.table(
        {
            "heads": _in_one_row(heads, _ANSWERED),
            "rows": pa.array([[_to_ipc(answered.rows) for answered in answers]], _BLOBS),
        }
    )


def unpack_answers(table: pa.Table) -> Iterator[AnsweredUnit]:
    """Yield the answered units of a row."""
    rows = table["rows"].chunk(0)[0].values
    for head, content in zip(table["heads"][0].as_py(), rows, strict=True):
        yield AnsweredUnit(
            unit=WorkUnit.from_dict(head["unit"]),
            rows=_from_ipc(content),
            fatal=head["fatal"],
            is_committed=head["is_committed"],
            span=ReplicaSpan(**head["span"]),
        )


def pack_receipts(receipts: Sequence[Receipt]) -> pa.Table:
    """Pack receipts into one row."""
    return pa.table({"receipts": _in_one_row([receipt.to_dict() for receipt in receipts], _RECEIPT)})


def _to_ipc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _from_ipc(content: pa.BinaryScalar | pa.LargeBinaryScalar) -> pa.Table:
    return pa.ipc.open_stream(content.as_buffer()).read_all()
