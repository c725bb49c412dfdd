"""How loaded units cross the object store: Arrow rows of plain bytes, read on the other side without a copy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from models.message_codec import dump_requests, load_requests
from models.messages import Frames, Media
from pipelines.media.decoder import blank_frames
from pipelines.plan.units import WorkUnit
from pipelines.predict.loader import Loaded
from pipelines.schemas import PREDICTIONS


@dataclass(frozen=True, slots=True)
class ReplicaSpan:
    """Which replica answered a unit, and when: seconds since the epoch."""

    replica: str = ""
    began: float = 0.0
    ended: float = 0.0


def pack_loaded(loaded: Loaded) -> pa.Table:
    """One unit as one row."""
    return pack_units([loaded])


def pack_units(convoy: Sequence[Loaded]) -> pa.Table:
    """Units that go to one replica as one row; the pixels that they share are in it once.

    A single-colour clip crosses as its name alone.
    """
    heads: list[dict[str, Any]] = []
    blobs: list[Any] = []
    for media, frames in {media: frames for loaded in convoy for media, frames in loaded.media.items()}.items():
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
    units = [json.dumps(loaded.unit.to_dict()) for loaded in convoy]
    columns = [json.dumps(loaded.columns) for loaded in convoy]
    texts, bytes_ = pa.large_list(pa.large_string()), pa.large_list(pa.large_binary())
    return pa.table(
        {
            "units": pa.array([units], texts),
            "columns": pa.array([columns], texts),
            "requests": pa.array([[dump_requests(loaded.requests) for loaded in convoy]], bytes_),
            "ready": pa.array([[_ipc(loaded.ready) for loaded in convoy]], bytes_),
            "heads": pa.array([json.dumps(heads)], pa.large_string()),
            "blobs": pa.array([[memoryview(blob) for blob in blobs]], bytes_),
        }
    )


def unpack_loaded(table: pa.Table) -> Loaded:
    """The inverse of `pack_loaded`; pixels are read-only views of the row."""
    return next(unpack_convoy(table))


def unpack_convoy(table: pa.Table) -> Iterator[Loaded]:
    """The inverse of `pack_units`, unit by unit; each unit is given the pixels of all."""
    media = _unpacked_media(table)
    lists = [table[name].chunk(0)[0].values for name in ("units", "columns", "requests", "ready")]
    for unit, columns, requests, ready in zip(*lists, strict=True):
        yield Loaded(
            unit=WorkUnit.from_dict(json.loads(unit.as_py())),
            columns=json.loads(columns.as_py()),
            requests=load_requests(requests.as_py()),
            media=media,
            ready=_from_ipc(ready.as_py()).to_pylist(),
        )


def _unpacked_media(table: pa.Table) -> dict[Media, Frames]:
    values = table["blobs"].chunk(0)[0].values
    views = iter([memoryview(values[i].as_buffer()) for i in range(len(values))])
    found: dict[Media, Frames] = {}
    for head in json.loads(table["heads"][0].as_py()):
        media = Media(*head["media"])
        if "blank" in head:
            found[media] = blank_frames(replace(media, frames=head["blank"]) if media.kind == "video" else media)
            continue
        pixels = np.frombuffer(next(views), np.uint8).reshape(head["shape"])
        encoded = bytes(next(views)) if head["encoded"] else None
        found[media] = Frames(
            pixels=pixels,
            seconds=tuple(head["seconds"]),
            fps=head["fps"],
            total_frames=head["total"],
            encoded=encoded,
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredUnit:
    """A unit on its way from a replica to its commit."""

    unit: WorkUnit
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Of PREDICTIONS."""
    fatal: str = ""
    """Why the model cannot be had; then there are no rows."""
    kept: bool = False
    """An earlier attempt committed this unit: there are no rows, and nothing is to be written."""
    span: ReplicaSpan = ReplicaSpan()
    """Who answered it, and when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The same where it is committed, its rows as a table of PREDICTIONS."""

    unit: WorkUnit
    rows: pa.Table
    fatal: str
    kept: bool
    span: ReplicaSpan


def pack_answers(answers: Sequence[AnsweredUnit]) -> pa.Table:
    """Answered units as one row."""
    heads = [
        {
            "unit": one.unit.to_dict(),
            "fatal": one.fatal,
            "kept": one.kept,
            "span": [one.span.replica, one.span.began, one.span.ended],
        }
        for one in answers
    ]
    return pa.table(
        {
            "heads": pa.array([json.dumps(heads)], pa.large_string()),
            "rows": pa.array([[_ipc(one.rows) for one in answers]], pa.large_list(pa.large_binary())),
        }
    )


def unpack_answers(table: pa.Table) -> Iterator[Finished]:
    """The inverse of `pack_answers`, unit by unit."""
    rows = table["rows"].chunk(0)[0].values
    for head, own in zip(json.loads(table["heads"][0].as_py()), rows, strict=True):
        unit = WorkUnit.from_dict(head["unit"])
        rows_of_unit = _from_ipc(own.as_py())
        yield Finished(
            unit=unit, rows=rows_of_unit, fatal=head["fatal"], kept=head["kept"], span=ReplicaSpan(*head["span"])
        )


def _ipc(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, PREDICTIONS) as writer:
        writer.write_table(pa.Table.from_pylist(rows, PREDICTIONS))
    return bytes(sink.getvalue())


def _from_ipc(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()
