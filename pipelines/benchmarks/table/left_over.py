"""Columns that nothing takes and that hold pictures, clips or options: a table without them is another benchmark."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from models.image_formats import detect_format
from pipelines.benchmarks.readers.short_answers import spelled
from pipelines.benchmarks.table.columns_file import ColumnsFile
from pipelines.benchmarks.table.files import FileRow
from pipelines.benchmarks.table.lists import listed
from pipelines.benchmarks.table.media import PICTURE_ENDINGS, VIDEO_ENDINGS, is_empty
from pipelines.errors import SourceError
from pipelines.media.video_containers import container_name

_ROWS: Final = 200  # that are looked at
_ENDINGS: Final = (*PICTURE_ENDINGS, *VIDEO_ENDINGS)
_MARK = re.compile(r"<(?:image|video)(?: ?\d+)?>", re.IGNORECASE)


def check_left_over(
    rows: Iterable[FileRow], roles: Mapping[str, tuple[str, ...]], given: ColumnsFile, where: str
) -> None:
    """Raise SourceError for a column with media or options that is not taken, or for a mark of a picture without one.

    A column counts where at least half of its cells in the first rows do. `given` says which may.
    """
    needs_media = "media" not in roles and not given.media_optional
    taken = {column for names in roles.values() for column in names}
    filled, media, options = Counter[str](), Counter[str](), Counter[str]()
    for place, row in islice(((at, row) for at, row in rows if not isinstance(row, ValueError)), _ROWS):
        if needs_media and (mark := _mark(row, roles)):
            raise SourceError(
                f"{where}, {place}: the question holds {mark} and no column is taken as media; say in a columns file "
                "which is (`media: COLUMN`), or that none is (`media_optional: true`, --columns FILE.yaml)"
            )
        answer = row.get(roles["answer"][0])
        for column in row:
            if column in taken or column in given.ignore or is_empty(row[column]):
                continue
            filled[column] += 1
            media[column] += _is_medium(row[column])
            options[column] += "options" not in roles and _are_options(row[column], answer)
    for counts, role, words in ((media, "media", "pictures or clips"), (options, "options", "options")):
        if column := next((name for name, count in counts.items() if count and 2 * count >= filled[name]), ""):
            raise SourceError(
                f"{where}: column {column!r} holds {words} and is not taken; say in a columns file what it is "
                f"(`{role}: {column}` or `ignore: [{column}]`, --columns FILE.yaml)"
            )


def _mark(row: Mapping[str, Any], roles: Mapping[str, tuple[str, ...]]) -> str:
    texts = (row.get(column) for role in ("question", "hint") for column in roles.get(role, ()))
    match = next(filter(None, (_MARK.search(text) for text in texts if isinstance(text, str))), None)
    return match[0] if match else ""


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
    return is_path or text.startswith(("data:image/", "data:video/"))


def _listed(text: str) -> Any:
    try:
        return listed(text)
    except ValueError:
        return None


def _are_options(cell: Any, answer: Any) -> bool:
    """Return whether a cell is a list of texts with the answer among them."""
    values = _listed(cell) if isinstance(cell, str) else cell
    if not isinstance(values, list) or len(values) < 2 or not all(isinstance(value, str) for value in values):
        return False
    return isinstance(answer, str) and spelled(answer) in {spelled(value) for value in values}
