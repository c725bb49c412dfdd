"""Columns that nothing takes and that hold pictures, clips or options: a table without them is another benchmark."""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from posixpath import basename, dirname, splitext
from string import ascii_uppercase
from typing import Any, Final

from models.image_formats import detect_format
from pipelines.benchmarks.readers.short_answers import spelled
from pipelines.benchmarks.records import Source
from pipelines.benchmarks.table.columns import option_families
from pipelines.benchmarks.table.columns_file import ColumnsFile
from pipelines.benchmarks.table.files import FileRow
from pipelines.benchmarks.table.lists import listed
from pipelines.benchmarks.table.media import PICTURE_ENDINGS, VIDEO_ENDINGS, is_base64, is_empty
from pipelines.benchmarks.table.templates import sources
from pipelines.errors import SourceError
from pipelines.media.video_containers import container_name

_ROWS: Final = 200  # that are looked at
_SHOWN: Final = 8  # problems in one message
_FILES, _DEPTH = 50_000, 2  # of a folder, in which clips are looked for
_ENDINGS: Final = (*PICTURE_ENDINGS, *VIDEO_ENDINGS)
_MEDIA_NAME = re.compile("video|clip|image|picture|photo|media")
_OPTION_NAME = re.compile("option|choice|candidate")
_MARK = re.compile(r"<(?:image|video)(?: ?\d+)?>", re.IGNORECASE)


def check_left_over(
    rows: Iterable[FileRow],
    roles: Mapping[str, tuple[str, ...]],
    given: ColumnsFile,
    where: str,
    *,
    stems: Collection[str] = (),
    asks_boxes: bool = False,
) -> None:
    """Raise SourceError for a column with media, options or boxes that is not taken, or for a mark without a picture.

    A column counts where at least half of its cells in the first rows do. `given` says which may; `stems` are the names
    of the pictures and clips of the source.
    """
    needs_media = "media" not in roles and not given.media_optional
    named = [*(name for names in (*roles.values(), *given.references.values()) for name in names), *given.prompt_names]
    taken = {*named, *(column for name in named for column in sources(name))}
    filled, media, named_media, options, boxes = (Counter[str]() for _ in range(5))
    asked, families, problems = 0, Counter[tuple[str, ...]](), list[str]()
    for place, row in islice(((at, row) for at, row in rows if not isinstance(row, ValueError)), _ROWS):
        if needs_media and not problems and (found := _mark(row, roles)):
            problems.append(
                f"{place}: the question holds {found[1]} and no column is taken as media; say in a columns file which "
                f"is (`media: COLUMN`), or that none is (`media_optional: true`, --columns FILE.yaml); it is in column "
                f"{found[0]!r}"
            )
        answer = row.get(roles["answer"][0]) if "answer" in roles else None
        for column in row:
            if column in taken or column in given.ignore or is_empty(row[column]):
                continue
            filled[column] += 1
            media[column] += _is_medium(row[column])
            named_media[column] += str(row[column]) in stems
            options[column] += "options" not in roles and _are_options(row[column], answer, column)
            boxes[column] += not asks_boxes and "box" in column.casefold() and _is_box(row[column])
        asked += 1
        if "options" not in roles:
            free = [column for column in row if column not in taken and column not in given.ignore]
            families.update(
                names for names in option_families(free) if _names_one(answer, [row[name] for name in names])
            )
    for counts, words, key in (
        (media, "pictures or clips", "`media: {}`"),
        (named_media, "names of pictures or clips", "`media: FOLDER/{{{}}}.mp4`"),
        (options, "options", "`options: {}`"),
        (boxes, "boxes", "`kind: box`, `answer: {}`"),
    ):
        problems += [
            f"column {column!r} holds {words} and is not taken; say in a columns file what it is "
            f"({key.format(column)} or `ignore: [{column}]`, --columns FILE.yaml)"
            for column, count in counts.items()
            if count and 2 * count >= filled[column]
        ]
    for names in (", ".join(family) for family, count in families.items() if 2 * count >= asked):
        problems.append(
            f"columns {names} hold options and are not taken; say in a columns file what they are "
            f"(`options: [{names}]` or `ignore: [{names}]`, --columns FILE.yaml)"
        )
    if problems:
        begins = f"{where}, " if problems[0].partition(":")[0].startswith(("line ", "row ")) else f"{where}: "
        raise SourceError(begins + "; ".join(problems[:_SHOWN]))


def _mark(row: Mapping[str, Any], roles: Mapping[str, tuple[str, ...]]) -> tuple[str, str] | None:
    """Return the column of a row that holds a mark, and the mark; None without one."""
    for column in (column for role in ("question", "hint", "options") for column in roles.get(role, ())):
        cell = row.get(column)
        cells = cell if isinstance(cell, list) else [*cell.values()] if isinstance(cell, dict) else [cell]
        if match := next(filter(None, (_MARK.search(text) for text in cells if isinstance(text, str))), None):
            return column, match[0]
    return None


def _is_medium(cell: Any) -> bool:
    """Return whether a cell, or the first value of a list, is a picture or clip or its path."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = _listed(cell)
    if isinstance(cell, list):
        cell = next((value for value in cell if not is_empty(value)), None)
    if isinstance(cell, dict):
        content, cell = cell.get("bytes"), cell.get("path")
        if isinstance(content, bytes | bytearray) and content:
            cell = content
    if isinstance(cell, bytes | bytearray):
        return bool(detect_format(bytes(cell)) or container_name(bytes(cell)))
    text = cell.strip().lower() if isinstance(cell, str) else ""
    is_path = len(text) < 1000 and "\n" not in text and text.partition("?")[0].endswith(_ENDINGS)
    return is_path or text.startswith(("data:image/", "data:video/")) or (bool(text) and is_base64(cell.strip()))


def _listed(text: str) -> Any:
    try:
        return listed(text)
    except ValueError:
        return None


def media_stems(source: Source, columns: Sequence[str]) -> frozenset[str]:
    """Return the names, without endings, of the pictures and clips of a source up to three folders deep.

    With a column such as `video_id`, those beside the source's folder count too.
    """
    paths: Iterable[str] = (path for pattern in ("*", "*/*", "*/*/*") for path in source.glob(pattern))
    if Path(source.uri).is_dir():  # where a folder above the table may hold much else
        is_named = any(_MEDIA_NAME.search(column.casefold()) for column in columns)
        paths = islice(_files(dirname(source.uri) if is_named else source.uri), _FILES)
    return frozenset(splitext(basename(path))[0] for path in paths if path.lower().endswith(_ENDINGS))


def _files(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        yield from names
        if place.removeprefix(folder).count("/") >= _DEPTH:
            folders.clear()


def _is_box(cell: Any) -> bool:
    values = _listed(cell) if isinstance(cell, str) else cell
    return isinstance(values, list) and len(values) == 4 and all(isinstance(value, int | float) for value in values)


def _are_options(cell: Any, answer: Any, column: str) -> bool:
    """Return whether a cell holds texts, one of which the answer is, or names by letter or index if it says options."""
    values = _listed(cell) if isinstance(cell, str) else cell
    if isinstance(values, dict):
        is_lettered = {key.strip().upper() for key in values} <= {*ascii_uppercase}
        values = [value for value in values.values() if not is_empty(value)] if is_lettered else None
    if not isinstance(values, list) or len(values) < 2 or not all(isinstance(value, str) for value in values):
        return False
    if isinstance(answer, str) and spelled(answer) in {spelled(value) for value in values}:
        return True
    return bool(_OPTION_NAME.search(column.casefold()) or isinstance(cell, dict)) and _names_one(answer, values)


def _names_one(answer: Any, cells: Sequence[Any]) -> bool:
    """Return whether an answer is the text, the letter or the index of one of the texts."""
    texts = [cell.strip() for cell in cells if isinstance(cell, str) and cell.strip()]
    if len(texts) < 2 or is_empty(answer) or isinstance(answer, list | dict) or any(map(_is_medium, texts)):
        return False
    text = str(answer).strip()
    letters = ascii_uppercase[: len(texts)]
    is_index = text.isdecimal() and int(text) <= len(texts) and not any(each.isdecimal() for each in texts)
    return text in texts or text.upper() in [*letters] or is_index
