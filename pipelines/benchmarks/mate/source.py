"""Read MATE as distributed: the development folder of JSONL files and pictures, or the public version's Parquet.

The rows of one scene are spread over seven files or two splits and become one sample.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pipelines.benchmarks.mate.row_parser import derived_rows
from pipelines.benchmarks.mate.rows import COT, SETTINGS, MateRow
from pipelines.benchmarks.mate.scene import TASKS
from pipelines.benchmarks.mate.scene_rows import (
    KINDS,
    PICTURE,
    WHITE,
    WHITE_NAME,
    SceneCollection,
    missing_picture,
    parse_row,
    picture_problem,
    sample_of,
)
from pipelines.benchmarks.parquet_source import MAX_PICTURE_BYTES, MAX_TEXT_BYTES, open_parquet, parquet_rows
from pipelines.benchmarks.records import MediaFile, Notice, RawSample, Rejection, Source
from pipelines.errors import SourceError

_FILE = re.compile(r"(mm|um)_([012])shot(_cot)?\.jsonl")


def read_mate(source: Source) -> Iterator[RawSample | Rejection | Notice]:
    """Read whichever form the folder holds; SourceError where it holds neither."""
    listed = source.glob("*.jsonl")
    files = [path for path in listed if _FILE.fullmatch(path)]
    tables = [path for pattern in ("*.parquet", "*/*.parquet") for path in source.glob(pattern)]
    if files:
        for path in sorted(set(listed) - set(files)):
            yield Notice(f"{path}: not a file of MATE (mm_0shot.jsonl and so on), skipped")
        if tables:
            yield Notice("Parquet files next to the JSONL files are skipped")
        yield from _development(source, files)
    elif tables:
        yield from read_public(source, tables)
    else:
        raise SourceError(
            f"{source.uri}: neither mm_*shot.jsonl or um_*shot.jsonl (with img/) nor *.parquet, here or in data/"
        )


def _development(source: Source, files: list[str]) -> Iterator[RawSample | Rejection | Notice]:
    collection, pictures = SceneCollection(), set(source.glob("img/*"))
    for path in files:
        for item, row in _lines(source, path):
            problem = row if isinstance(row, str) else missing_picture(row, pictures, path) or collection.add(row, path)
            if problem is not None:
                yield problem if isinstance(problem, Rejection) else Rejection(file=path, item=item, reason=problem)
    yield from collection.notices()
    white, notice = None, None
    if f"img/{WHITE_NAME}" in pictures:
        white = MediaFile(role=WHITE, kind="image", path=f"img/{WHITE_NAME}")
        notice = picture_problem(source, white)
    if notice:
        white = None
        yield Notice(f"img/{WHITE_NAME}: {notice}; a white picture of 480 x 320 replaces it")
    for name in collection.ordered(list(collection.scenes)):
        entry = collection.scenes[name]
        path = f"img/{entry.image or name + '.png'}"
        picture = MediaFile(role=PICTURE, kind="image", path=path) if path in pictures else None
        yield from sample_of(name, entry, picture, white, path)


def _lines(source: Source, path: str) -> Iterator[tuple[str, MateRow | str]]:
    """Yield the rows of one file, or the reasons why lines are invalid, with their ids or line numbers."""
    match = _FILE.fullmatch(path)
    assert match
    kind, shots, cot = match.groups()
    if cot and (kind, shots) != ("mm", "2"):
        raise SourceError(f"{source.uri}/{path}: only mm_2shot_cot.jsonl may contain prompts with steps")
    setting = COT if cot else SETTINGS[int(shots)]
    for number, line in enumerate(source.read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield _read(line, f"line {number}", setting, KINDS[kind])


def _read(line: bytes, location: str, setting: str, tasks: tuple[str, ...]) -> tuple[str, MateRow | str]:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        return location, f"not JSON: {error}"
    return parse_row(raw, location, setting, tasks)


_COLUMNS: Final = ("id", "scene", "question", "answer", "task", "pointer_attribute", "target_attribute")
_BATCH: Final = 64  # rows per batch with pictures


def read_public(source: Source, paths: list[str]) -> Iterator[RawSample | Rejection | Notice]:
    """Read texts first, then pictures batch by batch: they are never all in memory.

    Raises:
        SourceError: a file is no Parquet, or lacks a column.
    """
    collection, bare = SceneCollection(), 0
    for path in paths:
        for location, raw in _records(source, path, with_picture=False):
            item, row = parse_row(raw, location, None, tuple(TASKS))
            if isinstance(row, str):
                yield Rejection(file=path, item=item, reason=row)
                continue
            if (problem := collection.add(row, path)) is not None:
                yield problem
            elif row.text is None:
                bare += 1
                for derived_row in derived_rows(row):
                    collection.add(derived_row, path)
    yield from collection.notices()
    if bare:
        yield Notice(
            f"{bare:,} rows hold a question and no prompt: their prompts are built, and for 1-shot, 2-shot and"
            " 2-shot-cot with solved examples drawn from the scene, so that numbers are not the published ones'"
        )
    yield from _with_pictures(source, paths, collection)


def _with_pictures(
    source: Source, paths: list[str], collection: SceneCollection
) -> Iterator[RawSample | Rejection | Notice]:
    white = _white(source, paths)
    if white is not None and (problem := picture_problem(source, white)):
        yield Notice(f"{white.path}: {problem}; a white picture of 480 x 320 replaces all pictures of txt2txt rows")
        white = None
    names = sorted(collection.scenes, key=lambda name: not collection.scenes[name].pictured)
    ordered = collection.ordered(names)
    split = 0 if ordered == names else len(TASKS)
    for names in filter(None, (ordered[:split], ordered[split:])):  # pictures come as the files have them
        waiting = {name for name in names if collection.scenes[name].pictured}
        for path in paths:
            for _, raw in _records(source, path, with_picture=True) if waiting else ():
                name, content = raw["id"], _content(raw)
                if name in waiting and content and not _is_text_only(raw):
                    waiting.remove(name)
                    picture = MediaFile(role=PICTURE, kind="image", path=f"{path}:{name}.png", content=content)
                    yield from sample_of(name, collection.scenes[name], picture, white, path)
        for name in names:
            if name in waiting or not collection.scenes[name].pictured:
                yield from sample_of(name, collection.scenes[name], None, white, f"of {name}")


def _white(source: Source, paths: list[str]) -> MediaFile | None:
    """Return the first picture of a `txt2txt` row; it stands for all of them."""
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
    """Yield rows with their locations; the picture's column next to id and task, or all the others."""
    where = f"{source.uri}/{path}"
    file = open_parquet(source.read_bytes(path), where, _COLUMNS)
    names = [
        name
        for name in file.schema_arrow.names
        if (name in ("id", "task", "image")) == with_picture or name in ("id", "task")
    ]
    max_bytes = MAX_PICTURE_BYTES if with_picture else MAX_TEXT_BYTES
    for number, raw in enumerate(parquet_rows(file, names, rows=_BATCH, max_bytes=max_bytes, where=where), start=1):
        yield f"row {number}", raw
