"""How a loaded unit crosses the object store: one Arrow row of plain bytes, read on the other side without a copy."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from models.codec import dump_requests, load_requests
from models.messages import Frames, Media
from pipelines.plan import Unit
from pipelines.records import PREDICTIONS
from pipelines.work import Loaded

__all__ = ["pack_loaded", "pack_rows", "unpack_loaded", "unpack_rows"]


def pack_loaded(loaded: Loaded) -> pa.Table:
    """One row: unit, columns, requests, rows that are ready, and the pixels."""
    heads: list[dict[str, Any]] = []
    blobs: list[Any] = []
    for media, frames in loaded.media.items():
        heads.append(
            {
                "media": [media.kind, media.source, media.frames],
                "shape": frames.pixels.shape,
                "seconds": frames.seconds,
                "fps": frames.fps,
                "total": frames.total_frames,
                "encoded": frames.encoded is not None,
            }
        )
        blobs.append(pa.py_buffer(np.ascontiguousarray(frames.pixels)))
        if frames.encoded is not None:
            blobs.append(pa.py_buffer(frames.encoded))
    return pa.table(
        {
            "unit": pa.array([json.dumps(loaded.unit.to_dict())], pa.large_string()),
            "columns": pa.array([json.dumps(loaded.columns)], pa.large_string()),
            "requests": pa.array([dump_requests(loaded.requests)], pa.large_binary()),
            "ready": pa.array([_ipc(loaded.ready)], pa.large_binary()),
            "heads": pa.array([json.dumps(heads)], pa.large_string()),
            "blobs": pa.array([[memoryview(blob) for blob in blobs]], pa.large_list(pa.large_binary())),
        }
    )


def unpack_loaded(table: pa.Table) -> Loaded:
    """The inverse of `pack_loaded`; pixels are read-only views of the row."""
    values = table["blobs"].chunk(0)[0].values
    views = iter([memoryview(values[i].as_buffer()) for i in range(len(values))])
    media: dict[Media, Frames] = {}
    for head in json.loads(table["heads"][0].as_py()):
        pixels = np.frombuffer(next(views), np.uint8).reshape(head["shape"])
        encoded = bytes(next(views)) if head["encoded"] else None
        media[Media(*head["media"])] = Frames(
            pixels=pixels,
            seconds=tuple(head["seconds"]),
            fps=head["fps"],
            total_frames=head["total"],
            encoded=encoded,
        )
    return Loaded(
        unit=Unit.from_dict(json.loads(table["unit"][0].as_py())),
        columns=json.loads(table["columns"][0].as_py()),
        requests=load_requests(table["requests"][0].as_py()),
        media=media,
        ready=_from_ipc(table["ready"][0].as_py()).to_pylist(),
    )


def pack_rows(unit: Unit, rows: list[dict[str, Any]]) -> pa.Table:
    """One row: unit and its finished rows."""
    return pa.table(
        {
            "unit": pa.array([json.dumps(unit.to_dict())], pa.large_string()),
            "rows": pa.array([_ipc(rows)], pa.large_binary()),
            "fatal": pa.array([""], pa.string()),
        }
    )


def unpack_rows(table: pa.Table) -> tuple[Unit, pa.Table]:
    """The inverse of `pack_rows`."""
    return Unit.from_dict(json.loads(table["unit"][0].as_py())), _from_ipc(table["rows"][0].as_py())


def _ipc(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, PREDICTIONS) as writer:
        writer.write_table(pa.Table.from_pylist(rows, PREDICTIONS))
    return bytes(sink.getvalue())


def _from_ipc(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()
