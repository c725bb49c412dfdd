"""MATE as distributed: the development folder of JSONL files and pictures, or the public version's Parquet.

The rows of one scene are spread over seven files or two splits. They are put together here, for a scene is one sample;
a bad row costs itself alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pipelines.benchmarks.base import MediaFile, Notice, RawSample, Rejection, Source, SourceError
from pipelines.benchmarks.mate.rows import COT, SETTINGS, MateRow
from pipelines.benchmarks.mate.scene_rows import (
    KINDS,
    PICTURE,
    WHITE,
    WHITE_NAME,
    Gathered,
    checked,
    sample_of,
    unusable,
)
from pipelines.benchmarks.mate.source_public import read_public

_FILE = re.compile(r"(mm|um)_([012])shot(_cot)?\.jsonl")


def read_mate(source: Source) -> Iterator[RawSample | Rejection | Notice]:
    """Read whichever form the folder holds.

    Raises:
        SourceError: it holds neither.
    """
    listed = source.glob("*.jsonl")
    files = [path for path in listed if _FILE.fullmatch(path)]
    tables = [path for pattern in ("*.parquet", "*/*.parquet") for path in source.glob(pattern)]
    if files:
        for path in sorted(set(listed) - set(files)):
            yield Notice(f"{path}: not one of MATE's files (mm_0shot.jsonl and so on), left aside")
        if tables:
            yield Notice("Parquet files beside the JSONL files are left aside")
        yield from _development(source, files)
    elif tables:
        yield from read_public(source, tables)
    else:
        raise SourceError(
            f"{source.uri}: neither mm_*shot.jsonl or um_*shot.jsonl (with img/) nor *.parquet, here or in data/"
        )


def _development(source: Source, files: list[str]) -> Iterator[RawSample | Rejection | Notice]:
    found = Gathered()
    for path in files:
        for item, row in _lines(source, path):
            problem = row if isinstance(row, str) else found.add(row, path)
            if problem is not None:
                yield problem if isinstance(problem, Rejection) else Rejection(file=path, item=item, reason=problem)
    yield from found.notices()
    there = set(source.glob("img/*"))
    white, notice = None, None
    if f"img/{WHITE_NAME}" in there:
        white = MediaFile(role=WHITE, kind="image", path=f"img/{WHITE_NAME}")
        notice = unusable(source, white)
    if notice:
        white = None
        yield Notice(f"img/{WHITE_NAME}: {notice}; a white picture of 480 x 320 takes its place")
    for name, known in found.scenes.items():
        path = f"img/{known.image or name + '.png'}"
        picture = MediaFile(role=PICTURE, kind="image", path=path) if path in there else None
        yield from sample_of(name, known, picture, white, path)


def _lines(source: Source, path: str) -> Iterator[tuple[str, MateRow | str]]:
    """Rows of one file, or why a line is none, each with its id or place."""
    match = _FILE.fullmatch(path)
    assert match
    kind, shots, cot = match.groups()
    if cot and (kind, shots) != ("mm", "2"):
        raise SourceError(f"{source.uri}/{path}: steps are asked for in mm_2shot_cot.jsonl alone")
    setting = COT if cot else SETTINGS[int(shots)]
    for number, line in enumerate(source.read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield _read(line, f"line {number}", setting, KINDS[kind])


def _read(line: bytes, place: str, setting: str, tasks: tuple[str, ...]) -> tuple[str, MateRow | str]:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        return place, f"not JSON: {error}"
    return checked(raw, place, setting, tasks)
