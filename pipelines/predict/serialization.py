"""How loaded units cross the object store: Arrow rows of plain bytes, read on the other side without a copy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from models.message_codec import dump_requests, load_requests
from models.messages import Frames, Media
from pipelines.media.decoder import blank_frames, frames_from_header
from pipelines.plan.units import WorkUnit
from pipelines.predict.loader import Loaded
from pipelines.predict.records import AnsweredUnit, ReplicaSpan
from pipelines.schemas import PREDICTIONS, prediction_table


def pack_units(batch: Sequence[Loaded]) -> pa.Table:
    """Pack a batch of units into one row; pixels that they share are in it once, a single-colour clip as its name."""
    heads: list[dict[str, Any]] = []
    blobs: list[Any] = []
    for media, frames in {media: frames for loaded in batch for media, frames in loaded.media.items()}.items():
        head: dict[str, Any] = {"media": [media.kind, media.source, media.frames]}
        if media.source.startswith("blank:"):
            heads.append({**head, "blank": int(frames.pixels.shape[0])})
            continue
        head |= {
            "shape": frames.pixels.shape,
            "seconds": frames.seconds,
            "fps": frames.fps,
            "total": frames.total_frames,
            "encoded": frames.encoded is not None,
        }
        heads.append(head)
        blobs.append(pa.py_buffer(np.ascontiguousarray(frames.pixels)))
        if frames.encoded is not None:
            blobs.append(pa.py_buffer(frames.encoded))
    units = [json.dumps(loaded.unit.to_dict()) for loaded in batch]
    columns = [json.dumps(loaded.columns) for loaded in batch]
    texts, bytes_ = pa.large_list(pa.large_string()), pa.large_list(pa.large_binary())
    return pa.table(
        {
            "units": pa.array([units], texts),
            "columns": pa.array([columns], texts),
            "requests": pa.array([[dump_requests(loaded.requests) for loaded in batch]], bytes_),
            "ready": pa.array([[_to_ipc(prediction_table(loaded.ready)) for loaded in batch]], bytes_),
            "heads": pa.array([json.dumps(heads)], pa.large_string()),
            "blobs": pa.array([[memoryview(blob) for blob in blobs]], bytes_),
        }
    )


def unpack_units(table: pa.Table) -> Iterator[Loaded]:
    """Yield the units of a row; each gets the pixels of all, as read-only views of the row."""
    media = _unpack_media(table)
    lists = [table[name].chunk(0)[0].values for name in ("units", "columns", "requests", "ready")]
    for unit, columns, requests, ready in zip(*lists, strict=True):
        yield Loaded(
            unit=WorkUnit.from_dict(json.loads(unit.as_py())),
            columns=json.loads(columns.as_py()),
            requests=load_requests(requests.as_py()),
            media=media,
            ready=_from_ipc(ready.as_py()).to_pylist(),
        )


def _unpack_media(table: pa.Table) -> dict[Media, Frames]:
    values = table["blobs"].chunk(0)[0].values
    views = iter([memoryview(values[i].as_buffer()) for i in range(len(values))])
    media_frames: dict[Media, Frames] = {}
    for head in json.loads(table["heads"][0].as_py()):
        media = Media(*head["media"])
        if "blank" in head:
            media_frames[media] = blank_frames(replace(media, frames=head["blank"]) if media.kind == "video" else media)
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
            "span": [answered.span.replica, answered.span.began, answered.span.ended],
        }
        for answered in answers
    ]
    return pa.table(
        {
            "heads": pa.array([json.dumps(heads)], pa.large_string()),
            "rows": pa.array([[_to_ipc(answered.rows) for answered in answers]], pa.large_list(pa.large_binary())),
        }
    )


def unpack_answers(table: pa.Table) -> Iterator[AnsweredUnit]:
    """Yield the answered units of a row."""
    rows = table["rows"].chunk(0)[0].values
    for head, content in zip(json.loads(table["heads"][0].as_py()), rows, strict=True):
        yield AnsweredUnit(
            unit=WorkUnit.from_dict(head["unit"]),
            rows=_from_ipc(content.as_py()),
            fatal=head["fatal"],
            is_committed=head["is_committed"],
            span=ReplicaSpan(*head["span"]),
        )


def _to_ipc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, PREDICTIONS) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _from_ipc(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()
