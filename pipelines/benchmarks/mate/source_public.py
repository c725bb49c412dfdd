"""MATE's public version, HiTZ/MATE: Parquet with the pictures inside, and prompts or bare questions."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pipelines.benchmarks.base import MediaFile, Notice, RawSample, Rejection, Source, SourceError
from pipelines.benchmarks.mate.row_parser import derived_rows
from pipelines.benchmarks.mate.scene import TASKS
from pipelines.benchmarks.mate.scene_rows import PICTURE, WHITE, WHITE_NAME, Gathered, checked, sample_of, unusable
from pipelines.benchmarks.parquet_source import MOST_PICTURES, MOST_WORDS, batches

_COLUMNS: Final = ("id", "scene", "question", "answer", "task", "pointer_attribute", "target_attribute")
_BATCH: Final = 64
"""Rows held at once with their pictures."""


def read_public(source: Source, paths: list[str]) -> Iterator[RawSample | Rejection | Notice]:
    """Read words first, then pictures batch by batch: a gigabyte of them is never held at once.

    Raises:
        SourceError: a file is no Parquet, or lacks a column.
    """
    found, bare = Gathered(), 0
    for path in paths:
        for place, raw in _records(source, path, with_picture=False):
            item, row = checked(raw, place, None, tuple(TASKS))
            if isinstance(row, str):
                yield Rejection(file=path, item=item, reason=row)
                continue
            if (problem := found.add(row, path)) is not None:
                yield problem
            elif row.text is None:
                bare += 1
                for one in derived_rows(row):
                    found.add(one, path)
    yield from found.notices()
    if bare:
        yield Notice(
            f"{bare:,} rows hold a question and no prompt: their prompts are built, and for 1-shot, 2-shot and"
            " 2-shot-cot with solved examples drawn from the scene, so that numbers are not the published ones'"
        )
    yield from _with_pictures(source, paths, found)


def _with_pictures(source: Source, paths: list[str], found: Gathered) -> Iterator[RawSample | Rejection | Notice]:
    white = _white(source, paths)
    if white is not None and (problem := unusable(source, white)):
        yield Notice(f"{white.path}: {problem}; a white picture of 480 x 320 takes the place of all like it")
        white = None
    waiting = {name for name, known in found.scenes.items() if known.pictured}
    for path in paths:
        for _, raw in _records(source, path, with_picture=True):
            name, content = raw["id"], _content(raw)
            if name in waiting and content and not _is_text_only(raw):
                waiting.remove(name)
                picture = MediaFile(role=PICTURE, kind="image", path=f"{path}:{name}.png", content=content)
                yield from sample_of(name, found.scenes[name], picture, white, path)
    for name, known in found.scenes.items():
        if name in waiting or not known.pictured:
            yield from sample_of(name, known, None, white, f"of {name}")


def _white(source: Source, paths: list[str]) -> MediaFile | None:
    """The first picture of a `txt2txt` row; it stands for all of them."""
    for path in paths:
        for _, raw in _records(source, path, with_picture=True):
            if _is_text_only(raw) and (content := _content(raw)):
                return MediaFile(role=WHITE, kind="image", path=f"{path}:{WHITE_NAME}", content=content)
    return None


def _is_text_only(raw: Mapping[str, Any]) -> bool:
    return str(raw["task"]).strip() in ("txt2txt", "data2data")


def _content(raw: Mapping[str, Any]) -> bytes | None:
    picture = raw.get("image")
    content = picture.get("bytes") if isinstance(picture, Mapping) else picture
    return content if isinstance(content, bytes) and content else None


def _records(source: Source, path: str, *, with_picture: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with their places; the picture's column beside id and task, or all the others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = source.read_bytes(path)
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        names = list(file.schema_arrow.names)
        lacking = [name for name in _COLUMNS if name not in names]
        if lacking:
            raise SourceError(f"{source.uri}/{path}: no column {', '.join(lacking)}; there are {', '.join(names)}")
        wanted = [name for name in names if (name in ("id", "task", "image")) == with_picture or name in ("id", "task")]
        number, most = 0, MOST_PICTURES if with_picture else MOST_WORDS
        for batch in batches(file, wanted, rows=_BATCH, most=most, where=f"{source.uri}/{path}"):
            for raw in batch.to_pylist():
                number += 1
                yield f"row {number}", raw
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{source.uri}/{path}: not readable as Parquet ({error!s:.120}); fetch it again") from error
