"""Folders as `datasets` writes them with `save_to_disk`, and workbooks as spreadsheets write them."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyarrow as pa


def arrow(table: pa.Table, *, compression: str | None = None, rows: int = 100) -> bytes:
    """Return a table as a stream of batches of so many rows."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def save_to_disk(folder: Path, rows: list[dict[str, Any]], split: str | None = None, shards: int = 1) -> None:
    """Save a `Dataset`."""
    folder.mkdir(parents=True)
    names = [f"data-{number:05d}-of-{shards:05d}.arrow" for number in range(shards)]
    ends = [number * len(rows) // shards for number in range(shards + 1)]
    schema = pa.Table.from_pylist(rows).schema
    for name, start, end in zip(names, ends, ends[1:], strict=False):
        (folder / name).write_bytes(arrow(pa.Table.from_pylist(rows[start:end], schema)))
    state = {"_data_files": [{"filename": name} for name in names], "_format_type": None, "_split": split}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": {}, "splits": None}))


def save_splits(folder: Path, splits: dict[str, list[dict[str, Any]]]) -> None:
    """Save a `DatasetDict`."""
    for name, rows in splits.items():
        save_to_disk(folder / name, rows, name)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": [*splits]}))


def workbook(
    rows: list[list[Any]], sheets: int = 1, media: int = 0, formats: str = "", *, since_1904: bool = False
) -> bytes:
    """Return a workbook; a cell (value, style) has a style of `formats`, the cell formats of its styles."""
    lines = []
    for number, row in enumerate(rows, start=1):
        cells = [
            _cell(value, f"{chr(ord('A') + place)}{number}") for place, value in enumerate(row) if value is not None
        ]
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(1, sheets + 1):
            content = f"<worksheet><sheetData>{''.join(lines if number == 1 else [])}</sheetData></worksheet>"
            archive.writestr(f"xl/worksheets/sheet{number}.xml", content)
        for number in range(media):
            archive.writestr(f"xl/media/image{number}.png", b"")
        archive.writestr("xl/styles.xml", f"<styleSheet>{formats}</styleSheet>")
        archive.writestr("xl/workbook.xml", f'<workbook><workbookPr date1904="{int(since_1904)}"/></workbook>')
    return sink.getvalue()


def _cell(value: Any, place: str) -> str:
    value, style = value if isinstance(value, tuple) else (value, 0)
    if isinstance(value, int | float):
        return f'<c r="{place}" s="{style}"><v>{value}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
