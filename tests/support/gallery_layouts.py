"""Write small data sets in the layouts of the gallery's benchmarks, from `gallery_layouts/*.yaml`.

A value `$3` is picture 3 as the hub stores it, `$base64 3` and `$bytes 3` the same in other forms; a file `$3` is the
picture and `$clip` a clip.
"""

from __future__ import annotations

import base64
import io
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from PIL import Image

from tests.support.maia_source import write_clip

FOLDER: Final = Path(__file__).with_name("gallery_layouts")


@cache
def layouts() -> dict[str, dict[str, Any]]:
    """Return the files of each benchmark by name: rows by path, or the content of a medium."""
    return {
        name: files
        for path in sorted(FOLDER.glob("*.yaml"))
        for name, files in yaml.safe_load(path.read_text("utf-8")).items()
    }


@cache
def picture(number: int) -> bytes:
    """Return a picture whose content differs by number, 60 x 40 pixels."""
    buffer = io.BytesIO()
    Image.new("RGB", (60, 40), (number * 20 % 256, 90, 200)).save(buffer, "PNG")
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return [_cell(each) for each in value]
    if not isinstance(value, str) or not re.fullmatch(r"\$(\w+ )?\d+", value):
        return value
    form, _, number = value[1:].rpartition(" ")
    content = picture(int(number))
    return (
        {"bytes": content, "path": None}
        if not form
        else content
        if form == "bytes"
        else base64.b64encode(content).decode()
    )


def write_layout(name: str, folder: Path) -> Path:
    """Write the data set of a benchmark into a folder, which is returned."""
    for path, content in layouts()[name].items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            if content == "$clip":
                write_clip(target.with_suffix(".mp4"), frames=12)
                target.with_suffix(".mp4").rename(target)
            else:
                target.write_bytes(picture(int(content[1:])) if content.startswith("$") else content.encode())
            continue
        by_id = isinstance(content, dict)
        rows = [{key: _cell(value) for key, value in row.items()} for row in (content.values() if by_id else content)]
        if path.endswith(".parquet"):
            pq.write_table(pa.Table.from_pylist(rows), target)
        elif path.endswith(".json"):
            target.write_text(json.dumps(dict(zip(content, rows, strict=True)) if by_id else rows))
        elif path.endswith(".jsonl"):
            target.write_text("\n".join(map(json.dumps, rows)))
        else:
            lines = [rows[0], *(row.values() for row in rows)]
            target.write_text("\n".join("\t".join(map(str, line)) for line in lines) + "\n")
    return folder
